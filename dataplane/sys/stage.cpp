#include "dataplane/sys/stage.hpp"

#ifdef MPRDMA_WITH_STAGES

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "dataplane/sys/clock.hpp"

namespace mprdma::dataplane {

namespace {

constexpr const char* kWords[] = {
#define MPRDMA_STAGE(name, word, text) word,
    MPRDMA_STAGES(MPRDMA_STAGE)
#undef MPRDMA_STAGE
};

struct Stamp {
  uint64_t ticks;
  Stage stage;
};

// The last kStamps of a thread, written when it ends: a line for each, "<stage> <nanoseconds>" of
// CLOCK_MONOTONIC.
thread_local bool t_ended = false;  // its stamps are written

class Stamps {
 public:
  static constexpr size_t kStamps = 1 << 20;  // a power of two

  Stamps() : ring_(std::make_unique<Stamp[]>(kStamps)), first_ticks_(__builtin_ia32_rdtsc()) {}
  ~Stamps() {
    t_ended = true;
    const char* directory = std::getenv("MPRDMA_STAGES");
    if (directory == nullptr || count_ == 0) return;
    const std::string name =
        std::string(directory) + "/" + std::to_string(getpid()) + "." + std::to_string(gettid());
    FILE* const out = std::fopen(name.c_str(), "we");
    if (out == nullptr) return;
    const Time end = clock_now();
    const uint64_t end_ticks = __builtin_ia32_rdtsc();
    const double ns_of_tick = static_cast<double>((end - start_).count_ns()) /
                              static_cast<double>(end_ticks - first_ticks_);
    for (size_t i = count_ > kStamps ? count_ - kStamps : 0; i < count_; ++i) {
      const Stamp& stamp = ring_[i & (kStamps - 1)];
      const double before_end = static_cast<double>(end_ticks - stamp.ticks) * ns_of_tick;
      std::fprintf(out, "%s %lld\n", kWords[static_cast<size_t>(stamp.stage)],
                   static_cast<long long>(end.ns()) - static_cast<long long>(before_end));
    }
    (void)std::fclose(out);
  }
  Stamps(const Stamps&) = delete;
  Stamps& operator=(const Stamps&) = delete;

  void add(Stage stage) { ring_[count_++ & (kStamps - 1)] = {__builtin_ia32_rdtsc(), stage}; }

 private:
  std::unique_ptr<Stamp[]> ring_;
  size_t count_ = 0;
  const Time start_ = clock_now();
  const uint64_t first_ticks_;
};

}  // namespace

void stamp(Stage stage) {
  if (t_ended) return;
  static thread_local Stamps stamps;
  stamps.add(stage);
}

}  // namespace mprdma::dataplane

#endif
