// The environment that `mprdma run` gives a program, and its messages when it cannot run one.
#include "tools/run/run_plan.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/ipv4.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tools/running_fabrics.hpp"

namespace mprdma::tools {
namespace {

using Variables = std::map<std::string, std::string>;

Locations locations() {
  return {"/b/tools/mprdma", "/b/pre.so", "/b/prov-rdmav34.so", "/b/prov",
          "/b/engine.so",    "",          "/b/tools/mprdmad"};
}

// Plans a run; returns the error, or an empty text.
std::string plan(const RunOptions& options, const Variables& environment, RunPlan* out,
                 unsigned uid = 1000) {
  return plan_run(
             options, locations(),
             [&](const char* name) {
               const auto it = environment.find(name);
               return it != environment.end() ? it->second.c_str() : nullptr;
             },
             uid, out)
      .text;
}

unsigned owner_of(const char* path) {
  struct stat status {};
  EXPECT_EQ(stat(path, &status), 0);
  return status.st_uid;
}

TEST(RunPlan, HostZeroIsOneEndOfThePrivateWire) {
  RunPlan out;
  RunOptions options;
  options.host = "h0";
  ASSERT_EQ(plan(options, {{"XDG_RUNTIME_DIR", "/tmp"}}, &out, owner_of("/tmp")), "");
  EXPECT_EQ(out.variables["MPRDMA_ADDRESS"], "10.73.0.1/24");
  EXPECT_EQ(out.variables["MPRDMA_PORT"], "local:/tmp/mprdma/wire.sock");
  EXPECT_EQ(out.variables["MPRDMA_MTU"], "4096");
  EXPECT_EQ(out.variables["LD_PRELOAD"], "/b/pre.so");
  EXPECT_EQ(out.variables["IBV_DRIVERS"], "/b/prov");
  EXPECT_EQ(out.wire_directory, "/tmp/mprdma");
  EXPECT_NE(out.note.find("--host h1"), std::string::npos);
}

// Returns the daemon that has to be asked; "-": none, "": whichever runs.
std::string wish(const RunOptions& options, const Variables& environment) {
  DaemonWish out;
  EXPECT_EQ(wants_daemon(
                options,
                [&](const char* name) {
                  const auto it = environment.find(name);
                  return it != environment.end() ? it->second.c_str() : nullptr;
                },
                &out)
                .text,
            "");
  return out.wanted ? out.socket : "-";
}

TEST(RunPlan, WhoNamesNeitherHostNorAddressNorPortIsPartOfTheDaemonsDevice) {
  EXPECT_EQ(wish({}, {}), "");
  EXPECT_EQ(wish({}, {{"MPRDMA_MTU", "1024"}, {"MPRDMA_MODE", "roce"}}), "");
  EXPECT_EQ(wish({}, {{"MPRDMA_PORT", "daemon:/x/d.sock"}}), "/x/d.sock");
  EXPECT_EQ(wish({}, {{"MPRDMA_ADDRESS", "10.1.0.1/24"}}), "-");
  EXPECT_EQ(wish({}, {{"MPRDMA_PORT", "local:/x/w.sock"}}), "-");
  RunOptions options;
  options.host = "h1";
  EXPECT_EQ(wish(options, {}), "-");
  EXPECT_EQ(wish(options, {{"MPRDMA_PORT", "daemon:/x/d.sock"}}), "-") << "of an outer run";
}

TEST(RunPlan, DeviceIsAsTheDaemonDescribesIt) {
  RunOptions options;
  options.daemon = {"/x/d.sock", "nic7", {Ipv4(0x0a490005), 16, {2, 0, 0, 0, 0, 9}, 2048}};
  RunPlan out;
  ASSERT_EQ(plan(options, {}, &out), "");
  EXPECT_EQ(out.variables["MPRDMA_PORT"], "daemon:/x/d.sock");
  EXPECT_EQ(out.variables["MPRDMA_ADDRESS"], "10.73.0.5/16");
  EXPECT_EQ(out.variables["MPRDMA_MAC"], "02:00:00:00:00:09");
  EXPECT_EQ(out.variables["MPRDMA_MTU"], "2048");
  EXPECT_EQ(out.variables["MPRDMA_DEVICE"], "nic7");
  EXPECT_EQ(out.wire_directory, "");
  ASSERT_EQ(plan(options, {{"MPRDMA_MTU", "1024"}, {"MPRDMA_DEVICE", "mine"}}, &out), "");
  EXPECT_EQ(out.variables["MPRDMA_MTU"], "1024");
  EXPECT_EQ(out.variables["MPRDMA_DEVICE"], "mine");
  EXPECT_NE(plan(options, {{"MPRDMA_MTU", "4096"}}, &out), "") << "more than it carries";
  EXPECT_NE(plan(options, {{"MPRDMA_MAC", "02:00:00:00:00:01"}}, &out), "");
}

// A root shell that kept the user's environment would put its sockets where the user can change
// them, and leave a directory there that the user's programs refuse.
TEST(RunPlan, RuntimeDirectoryOfSomebodyElseIsNotUsed) {
  RunPlan out;
  const unsigned uid = owner_of("/tmp") + 1;
  ASSERT_EQ(plan({}, {{"XDG_RUNTIME_DIR", "/tmp"}}, &out, uid), "");
  EXPECT_EQ(out.wire_directory, "/tmp/mprdma-" + std::to_string(uid));
}

TEST(RunPlan, HostWithinARunOfTheOtherHostHasAnEthernetAddressOfItsOwn) {
  RunPlan outer;
  ASSERT_EQ(plan({}, {}, &outer), "");
  EXPECT_EQ(outer.variables.count("MPRDMA_MAC"), 0u) << "it follows from the address";
  RunOptions options;
  options.host = "h1";
  RunPlan inner;
  ASSERT_EQ(plan(options, outer.variables, &inner), "");
  EXPECT_EQ(inner.variables["MPRDMA_ADDRESS"], "10.73.0.2/24");
  EXPECT_EQ(inner.variables.count("MPRDMA_MAC"), 0u);
  options.mac = "02:00:00:00:00:07";
  ASSERT_EQ(plan(options, outer.variables, &inner), "");
  EXPECT_EQ(inner.variables["MPRDMA_MAC"], options.mac);
}

TEST(RunPlan, TheOtherHostSharesTheWire) {
  RunPlan h0;
  RunPlan h1;
  RunOptions options;
  ASSERT_EQ(plan(options, {}, &h0), "");
  options.host = "h1";
  ASSERT_EQ(plan(options, {}, &h1), "");
  EXPECT_EQ(h0.variables["MPRDMA_PORT"], h1.variables["MPRDMA_PORT"]);
  EXPECT_EQ(h0.wire_directory, "/tmp/mprdma-1000");
  EXPECT_EQ(h1.variables["MPRDMA_ADDRESS"], "10.73.0.2/24");
}

TEST(RunningFabrics, AreThoseThatHoldTheirLockWhereNobodyElseCanWrite) {
  const TemporaryDirectory directory;
  for (const char* fabric : {"fabric-dead", "fabric-up"}) {
    std::filesystem::create_directory(directory.path(fabric));
    std::ofstream(directory.path(fabric) + "/lock") << "";
  }
  const int lock = open(directory.path("fabric-up/lock").c_str(), O_RDWR | O_CLOEXEC);
  struct flock whole {};
  whole.l_type = F_WRLCK;
  ASSERT_EQ(fcntl(lock, F_OFD_SETLK, &whole), 0);
  EXPECT_EQ(running_fabrics(directory.path()), std::vector<std::string>{"up"});
  ASSERT_EQ(chmod(directory.path().c_str(), 0777), 0);
  EXPECT_TRUE(running_fabrics(directory.path()).empty()) << "anybody may have made it";
  close(lock);
}

TEST(RunPlan, CommandLineWinsOverEnvironmentAndEnvironmentOverTheFile) {
  const TemporaryDirectory directory;
  const std::string path = directory.path("config.toml");
  std::ofstream(path) << "[device]\naddress = \"10.1.0.1/16\"\nmtu = 1024\nname = \"file\"\n";
  RunOptions options;
  options.config = path;
  options.mtu = "2048";
  RunPlan out;
  ASSERT_EQ(plan(options, {{"MPRDMA_MTU", "4096"}, {"MPRDMA_DEVICE", "env"}}, &out), "");
  EXPECT_EQ(out.variables["MPRDMA_MTU"], "2048");
  EXPECT_EQ(out.variables["MPRDMA_DEVICE"], "env");
  EXPECT_EQ(out.variables["MPRDMA_ADDRESS"], "10.1.0.1/16");
  EXPECT_EQ(out.variables["MPRDMA_CONFIG"], path);
}

TEST(RunPlan, APresetOfTheCommandLineHidesAModeOfTheEnvironment) {
  RunOptions options;
  options.preset = "dcqcn-tuned";
  RunPlan out;
  ASSERT_EQ(plan(options, {{"MPRDMA_MODE", "mp"}}, &out), "");
  EXPECT_EQ(out.variables["MPRDMA_PRESET"], "dcqcn-tuned");
  EXPECT_EQ(out.variables["MPRDMA_MODE"], "") << "the program must not see both";
  options.mode = "dcqcn-tuned";
  EXPECT_NE(plan(options, {}, &out), "") << "no mode";
  options.mode = "mp";
  const std::string error = plan(options, {}, &out);
  EXPECT_EQ(error.substr(0, 21), "--preset dcqcn-tuned ") << error;
  options.preset.clear();
  ASSERT_EQ(plan(options, {{"MPRDMA_PRESET", "roce"}}, &out), "");
  EXPECT_EQ(out.variables["MPRDMA_PRESET"], "");
}

TEST(RunPlan, GivenPortNeedsNoDirectory) {
  RunOptions options;
  options.port = "ethdev:net_af_packet0,iface=veth0";
  RunPlan out;
  ASSERT_EQ(plan(options, {}, &out), "");
  EXPECT_EQ(out.wire_directory, "");
  EXPECT_EQ(out.variables["MPRDMA_PORT"], options.port);
}

TEST(RunPlan, PreloadsAndDriversThatWereThereStay) {
  RunPlan out;
  ASSERT_EQ(plan({}, {{"LD_PRELOAD", "/x.so"}, {"IBV_DRIVERS", "/y"}}, &out), "");
  EXPECT_EQ(out.variables["LD_PRELOAD"], "/b/pre.so:/x.so");
  EXPECT_EQ(out.variables["IBV_DRIVERS"], "/b/prov:/y");
}

TEST(RunPlan, MistakesAreNamed) {
  RunPlan out;
  RunOptions options;
  options.host = "h7";
  EXPECT_NE(plan(options, {}, &out).find("h0 and h1"), std::string::npos);
  options.host = "h0";
  options.address = "10.0.0.1";
  EXPECT_NE(plan(options, {}, &out).find("exclude"), std::string::npos);
  options = {};
  options.mtu = "1500";
  EXPECT_NE(plan(options, {}, &out).find("1024, 2048 or 4096"), std::string::npos);
  options = {};
  options.config = "/no/such/file.toml";
  EXPECT_NE(plan(options, {}, &out).find("/no/such/file.toml"), std::string::npos);
}

}  // namespace
}  // namespace mprdma::tools
