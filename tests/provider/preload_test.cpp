// What unmodified programs see of the emulated kernel. Each test runs the distribution's own tools.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/provider/process.hpp"
#include "tests/support/temporary_directory.hpp"

namespace mprdma::provider_test {
namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Ran run_on_device(const std::string& command) {
  return run(device_environment() + command);
}

TEST(Preload, IbvDevicesListsOurDevice) {
  const Ran ran = run_on_device("ibv_devices");
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_TRUE(contains(ran.output, "mprdma0")) << ran.output;
  EXPECT_TRUE(contains(ran.output, "004d52fffe490001")) << ran.output;
}

TEST(Preload, IbvDevinfoShowsRoceV2GidsAnActivePortAndTheEnginesLimits) {
  const Ran ran = run_on_device("ibv_devinfo -v");
  EXPECT_EQ(ran.exit_code, 0) << ran.output;
  for (const char* part :
       {"PORT_ACTIVE", "4096 (5)", "fe80::4d:52ff:fe49:1, RoCE v2", "::ffff:10.73.0.1, RoCE v2",
        "Ethernet", "max_qp:\t\t\t\t1000\n", "max_cqe:\t\t\t65536"}) {
    EXPECT_TRUE(contains(ran.output, part)) << part << "\n" << ran.output;
  }
}

TEST(Preload, DeviceInfoDoesNotStartAnEngine) {
  const Ran ran = run("env LD_PRELOAD=" MPRDMA_TEST_PRELOAD " IBV_DRIVERS=" MPRDMA_TEST_PROVIDER
                      " MPRDMA_ENGINE_LIBRARY=/nowhere.so MPRDMA_ADDRESS=10.73.0.1/24 ibv_devices");
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_FALSE(contains(ran.output, "cannot load")) << ran.output;
}

TEST(Preload, DeviceIsNamedAndAddressedByTheEnvironment) {
  const Ran ran = run_on_device(
      "MPRDMA_DEVICE=rail3 MPRDMA_MAC=02:00:00:00:00:09 MPRDMA_MTU=1024 ibv_devinfo -v");
  EXPECT_TRUE(contains(ran.output, "rail3")) << ran.output;
  EXPECT_TRUE(contains(ran.output, "fe80::ff:fe00:9, RoCE v2")) << ran.output;
  EXPECT_TRUE(contains(ran.output, "active_mtu:\t\t1024")) << ran.output;
}

TEST(Preload, WrongEnvironmentIsNamedAndLeavesNoDevice) {
  const Ran ran = run_on_device("MPRDMA_ADDRESS=10.73.0 ibv_devices");
  EXPECT_TRUE(contains(ran.output, "MPRDMA_ADDRESS=\"10.73.0\"")) << ran.output;
  EXPECT_FALSE(contains(ran.output, "mprdma0")) << ran.output;
}

TEST(Preload, IsInertWithoutAnAddress) {
  const Ran ran = run("env LD_PRELOAD=" MPRDMA_TEST_PRELOAD " ls /sys/class/infiniband/mprdma0");
  EXPECT_NE(ran.exit_code, 0);
}

TEST(Preload, ShellToolsSeeTheSysfsTree) {
  EXPECT_EQ(run_on_device("ls /sys/class/infiniband/mprdma0/ports/1/gid_attrs/types").output,
            "0\n1\n");
  EXPECT_EQ(run_on_device("cat /sys//class/infiniband/mprdma0/./node_type").output, "1: CA\n");
  EXPECT_EQ(run_on_device("realpath /sys/class/infiniband/mprdma0/device").output,
            "/sys/class/infiniband/mprdma0/device\n");
  EXPECT_EQ(run_on_device("ls -l /sys/class/infiniband").exit_code, 0);
  EXPECT_EQ(run_on_device("sh -c 'cd /sys/class/infiniband/mprdma0 && cat fw_ver'").exit_code, 0);
}

TEST(Preload, CharacterDeviceHasTheNumberThatSysfsSays) {
  const Ran number = run_on_device("cat /sys/class/infiniband_verbs/uverbs0/dev");
  EXPECT_EQ(number.output, "231:192\n");
  EXPECT_EQ(run_on_device("stat -c '%F %Hr:%Lr' /dev/infiniband/uverbs0").output,
            "character special file 231:192\n");
  EXPECT_EQ(run_on_device("test -w /dev/infiniband/uverbs0").exit_code, 0);
}

TEST(Preload, PythonSeesTheSysfsTree) {
  const Ran ran = run_on_device(
      "python3 -c 'import os; print(os.listdir(\"/sys/class/infiniband\"));"
      "print(open(\"/sys/class/infiniband/mprdma0/ports/1/state\").read().strip());"
      "fd = os.open(\"/dev/infiniband/uverbs0\", os.O_RDWR);"
      "print(os.major(os.fstat(fd).st_rdev), os.minor(os.stat(\"/dev/infiniband/uverbs0\").st_rdev"
      "))'");
  EXPECT_EQ(ran.output, "['mprdma0']\n4: ACTIVE\n231 192\n");
}

// A host that has a device of its own, in the place where the preload looks for the host's. Its
// name is one that our provider matches too: no other provider would do without a kernel behind it.
class PreloadBesideRealDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    put("sys/class/infiniband/mprdma9/node_type", "1: CA\n");
    put("sys/class/infiniband/mprdma9/node_guid", "0000:0000:0000:0007\n");
    put("sys/class/infiniband_verbs/abi_version", "6\n");
    put("sys/class/infiniband_verbs/uverbs0/ibdev", "mprdma9\n");
    put("sys/class/infiniband_verbs/uverbs0/dev", "231:192\n");
    put("sys/class/infiniband_verbs/uverbs0/abi_version", "1\n");
    put("dev/infiniband/uverbs0", "");
  }

  void put(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root_.path(path);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  Ran run_here(const std::string& command) const {
    return run_on_device("MPRDMA_REAL_SYSFS=" + root_.path("sys") +
                         " MPRDMA_REAL_DEV=" + root_.path("dev") + " " + command);
  }

  TemporaryDirectory root_;
};

TEST_F(PreloadBesideRealDevice, ListingsShowBoth) {
  EXPECT_EQ(run_here("ls /sys/class/infiniband").output, "mprdma0\nmprdma9\n");
  EXPECT_EQ(run_here("ls /dev/infiniband").output, "rdma_cm\nuverbs0\nuverbs1\n");
}

TEST_F(PreloadBesideRealDevice, OursTakesTheNextFreeNumber) {
  EXPECT_EQ(run_here("cat /sys/class/infiniband_verbs/uverbs1/ibdev").output, "mprdma0\n");
  EXPECT_EQ(run_here("cat /sys/class/infiniband_verbs/uverbs1/dev").output, "231:193\n");
}

TEST_F(PreloadBesideRealDevice, ItsFilesAreItsOwn) {
  EXPECT_EQ(run_here("cat /sys/class/infiniband/mprdma9/node_guid").output,
            "0000:0000:0000:0007\n");
  EXPECT_EQ(run_here("cat /sys/class/infiniband_verbs/uverbs0/ibdev").output, "mprdma9\n");
}

TEST_F(PreloadBesideRealDevice, LibibverbsFindsBoth) {
  const Ran ran = run_here("ibv_devices");
  EXPECT_TRUE(contains(ran.output, "mprdma0")) << ran.output;
  EXPECT_TRUE(contains(ran.output, "mprdma9")) << ran.output;
  EXPECT_TRUE(contains(ran.output, "0000000000000007")) << ran.output;
}

// ---- The private copy of the tree ----

size_t trees_in(const std::filesystem::path& base) {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(base)) {
    count += entry.path().filename().string().rfind("mprdma-tree.", 0) == 0 ? 1 : 0;
  }
  return count;
}

class PreloadTree : public ::testing::Test {
 protected:
  Ran run_here(const std::string& command) const {
    return run_on_device("XDG_RUNTIME_DIR=" + base_.path() + " " + command);
  }
  TemporaryDirectory base_;
};

TEST_F(PreloadTree, IsRemovedAtExit) {
  EXPECT_EQ(run_here("ls /sys/class/infiniband").output, "mprdma0\n");
  EXPECT_EQ(trees_in(base_.path()), 0u);
}

TEST_F(PreloadTree, OfAKilledProcessIsRemovedByTheNext) {
  run_here(
      "python3 -c 'import os, signal; os.listdir(\"/sys/class/infiniband\");"
      "os.kill(os.getpid(), signal.SIGKILL)'");
  ASSERT_EQ(trees_in(base_.path()), 1u);
  EXPECT_EQ(run_here("ls /sys/class/infiniband").output, "mprdma0\n");
  EXPECT_EQ(trees_in(base_.path()), 0u);
}

// A directory of another owner is left alone: the owner could refill it again and again, and keep
// every start busy.
TEST_F(PreloadTree, OfAnotherUserIsLeftAlone) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root: nobody else gives a directory away";
  run_here(
      "python3 -c 'import os, signal; os.listdir(\"/sys/class/infiniband\");"
      "os.kill(os.getpid(), signal.SIGKILL)'");
  ASSERT_EQ(trees_in(base_.path()), 1u);
  const std::filesystem::path tree = *std::filesystem::directory_iterator(base_.path());
  constexpr uid_t kNobody = 65534;
  ASSERT_EQ(chown(tree.c_str(), kNobody, kNobody), 0);
  EXPECT_EQ(run_here("ls /sys/class/infiniband").output, "mprdma0\n");
  EXPECT_EQ(trees_in(base_.path()), 1u);
  EXPECT_FALSE(std::filesystem::is_empty(tree));
}

TEST_F(PreloadTree, OfALivingProcessIsLeftAlone) {
  const Ran ran = run_here(
      "python3 -c 'import os, subprocess; os.listdir(\"/sys/class/infiniband\");"
      "subprocess.run([\"ls\", \"/sys/class/infiniband\"]);"
      "print(open(\"/sys/class/infiniband/mprdma0/node_type\").read().strip())'");
  EXPECT_EQ(ran.output, "mprdma0\n1: CA\n");
}

TEST_F(PreloadTree, SurvivesTheParentOfAFork) {
  // A child has a tree of its own when the parent's tree is gone.
  const Ran ran = run_here(
      "python3 -c 'import os, time\n"
      "os.listdir(\"/sys/class/infiniband\")\n"
      "r, w = os.pipe()\n"
      "if os.fork() == 0:\n"
      "  os.close(w); os.read(r, 1)\n"
      "  print(os.listdir(\"/sys/class/infiniband\")); import sys; sys.exit(0)\n'");
  EXPECT_EQ(ran.output, "['mprdma0']\n");
}

TEST_F(PreloadTree, IsRebuiltWhenSomebodyRemovedIt) {
  const Ran ran = run_here(
      "python3 -c 'import os, shutil; os.listdir(\"/sys/class/infiniband\");"
      "[shutil.rmtree(os.path.join(\"" +
      base_.path() + "\", d)) for d in os.listdir(\"" + base_.path() +
      "\")];"
      "print(os.listdir(\"/sys/class/infiniband\"))'");
  EXPECT_EQ(ran.output, "['mprdma0']\n");
}

// ---- Descriptors that an application closes behind our back ----

TEST(PreloadDescriptors, StaleEntriesDoNoHarm) {
  // closerange uses close_range(2), which no hook sees; the number is then an ordinary file's.
  const Ran ran = run_on_device(
      "python3 -c 'import os, tempfile\n"
      "fd = os.open(\"/dev/infiniband/uverbs0\", os.O_RDWR)\n"
      "os.closerange(fd, fd + 1)\n"
      "f = tempfile.TemporaryFile()\n"
      "os.dup2(f.fileno(), fd)\n"
      "print(os.write(fd, b\"data\"), os.fstat(fd).st_size)'");
  EXPECT_EQ(ran.output, "4 4\n");
}

TEST(PreloadDescriptors, NullDeviceUnderAClosedNumberIsJustThat) {
  const Ran ran = run_on_device(
      "python3 -c 'import ctypes, os\n"
      "fd = os.open(\"/dev/infiniband/uverbs0\", os.O_RDWR)\n"
      "ctypes.CDLL(None).close_range(fd, fd, 0)\n"
      "null = os.open(\"/dev/null\", os.O_RDWR)\n"
      "print(null == fd, os.write(null, b\"data\"))'");
  EXPECT_EQ(ran.output, "True 4\n");
}

TEST(PreloadDescriptors, DuplicatesAreTheDeviceToo) {
  const Ran ran = run_on_device(
      "python3 -c 'import fcntl, os\n"
      "fd = os.open(\"/dev/infiniband/uverbs0\", os.O_RDWR)\n"
      "print([os.major(os.fstat(d).st_rdev) for d in "
      "(os.dup(fd), os.dup2(fd, 50), fcntl.fcntl(fd, fcntl.F_DUPFD, 60))])'");
  EXPECT_EQ(ran.output, "[231, 231, 231]\n");
}

TEST(PreloadDescriptors, WriteToUverbsIsRefusedNotSwallowed) {
  const Ran ran = run_on_device(
      "python3 -c 'import os\n"
      "fd = os.open(\"/dev/infiniband/uverbs0\", os.O_RDWR)\n"
      "os.write(os.dup(fd), b\"x\")\n"
      "os.write(fd, b\"x\")'");
  EXPECT_NE(ran.exit_code, 0);
  EXPECT_TRUE(contains(ran.output, "not supported")) << ran.output;
}

TEST(PreloadNetlink, RdmaNetlinkIsAbsentSoThatLibrariesLookAtSysfs) {
  const Ran ran = run_on_device(
      "python3 -c 'import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 20)'");
  EXPECT_TRUE(contains(ran.output, "Protocol not supported")) << ran.output;
  EXPECT_EQ(run_on_device("python3 -c 'import socket; socket.socket(socket.AF_NETLINK, "
                          "socket.SOCK_RAW, 0)'")
                .exit_code,
            0);
}

}  // namespace
}  // namespace mprdma::provider_test
