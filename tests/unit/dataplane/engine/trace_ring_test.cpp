// The file of MPRDMA_TRACE.
#include "dataplane/engine/trace_ring.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/support/temporary_directory.hpp"

namespace mprdma::dataplane {
namespace {

using transport::TraceEvent;
using transport::TraceKind;

std::string contents(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TraceEvent event_at(int64_t ns) {
  return {.now = Time::from_ns(ns), .kind = TraceKind::state, .qpn = Qpn(3), .reason = "RTS"};
}

TEST(TraceRing, WritesWhatCameSinceTheLastFlush) {
  const TemporaryDirectory directory;
  TraceRing ring;
  ASSERT_TRUE(ring.open(directory.path() + "/trace-%p").ok());
  EXPECT_EQ(ring.path(), directory.path() + "/trace-" + std::to_string(getpid()));
  ring.on_event(event_at(1));
  ring.flush();
  ring.on_event(event_at(2));
  ring.flush();
  EXPECT_EQ(contents(ring.path()), R"({"ns":1,"qpn":3,"event":"state","psn":0,"reason":"RTS"})"
                                   "\n"
                                   R"({"ns":2,"qpn":3,"event":"state","psn":0,"reason":"RTS"})"
                                   "\n");
}

TEST(TraceRing, CountsTheEventsThatFindItFull) {
  const TemporaryDirectory directory;
  TraceRing ring;
  ASSERT_TRUE(ring.open(directory.path() + "/trace").ok());
  constexpr size_t kMore = 5;
  for (size_t i = 0; i < TraceRing::kEvents + kMore; ++i) ring.on_event(event_at(1));
  ring.flush();
  const std::string text = contents(ring.path());
  EXPECT_EQ(static_cast<size_t>(std::count(text.begin(), text.end(), '\n')),
            TraceRing::kEvents + 1);
  EXPECT_TRUE(text.ends_with("{\"event\":\"events_lost\",\"count\":5}\n"));
}

TEST(TraceRing, MakesNoFileAgainThatWasRemovedAndNoneInAChild) {
  const TemporaryDirectory directory;
  TraceRing ring;
  ASSERT_TRUE(ring.open(directory.path() + "/trace").ok());
  std::filesystem::remove(ring.path());
  ring.on_event(event_at(1));
  ring.flush();
  EXPECT_FALSE(std::filesystem::exists(ring.path()));

  ASSERT_TRUE(ring.open(directory.path() + "/other").ok());
  const std::string path = ring.path();
  ring.on_event(event_at(1));
  ring.abandon();
  ring.flush();
  EXPECT_EQ(contents(path), "");
}

TEST(TraceRing, TheNextEngineOfAProcessGoesOnWithTheFile) {
  const TemporaryDirectory directory;
  for (const int64_t ns : {1, 2}) {
    TraceRing ring;
    ASSERT_TRUE(ring.open(directory.path() + "/trace").ok());
    ring.on_event(event_at(ns));
    ring.flush();
  }
  const std::string text = contents(directory.path() + "/trace");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
}

// A full disk: /dev/full takes nothing.
TEST(TraceRing, CountsWhatCouldNotBeWritten) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/trace";
  TraceRing ring;
  ASSERT_TRUE(ring.open(path).ok());
  std::filesystem::remove(path);
  std::filesystem::create_symlink("/dev/full", path);
  ring.on_event(event_at(1));
  ring.on_event(event_at(2));
  ring.flush();
  std::filesystem::remove(path);
  std::ofstream(path).flush();
  ring.flush();
  EXPECT_EQ(contents(path), "{\"event\":\"events_lost\",\"count\":2}\n");
}

// A write to a pipe could block the engine, and end the process once the reader has gone.
TEST(TraceRing, RefusesAPipe) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  TraceRing ring;
  EXPECT_EQ(ring.open(path).error, ENXIO) << "nobody reads";
  const int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  EXPECT_EQ(ring.open(path).error, EINVAL);
  ::close(reader);
}

TEST(TraceRing, SaysWhyThereIsNoFile) {
  TraceRing ring;
  const Status status = ring.open("/nonexistent/trace");
  EXPECT_EQ(status.error, ENOENT);
  EXPECT_EQ(status.text, "MPRDMA_TRACE=/nonexistent/trace: No such file or directory");
}

}  // namespace
}  // namespace mprdma::dataplane
