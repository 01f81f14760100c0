// The built command from outside: exit codes and what it says.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace mprdma::tools {
namespace {

struct Outcome {
  int exit_code = -1;
  std::string output;
};

// A wire that no test uses: nothing of the user's own is touched.
constexpr const char* kNoWire = "MPRDMA_PORT=local:/tmp/mprdma-command-test.sock";

Outcome mprdma(const std::string& arguments, const std::string& variable = kNoWire) {
  Outcome outcome;
  const std::string command = variable + " " + MPRDMA_COMMAND + " " + arguments + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  char buffer[512];
  while (fgets(buffer, sizeof(buffer), pipe) != nullptr) outcome.output += buffer;
  const int status = pclose(pipe);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

TEST(Command, ExitCodeIsThatOfTheProgram) {
  EXPECT_EQ(mprdma("run --host h0 -- true").exit_code, 0);
  EXPECT_EQ(mprdma("run --host h0 -- sh -c 'exit 7'").exit_code, 7);
}

TEST(Command, ProgramsThatCannotBeRunAreSaidSo) {
  const Outcome missing = mprdma("run --host h0 -- no-such-program");
  EXPECT_EQ(missing.exit_code, 127);
  EXPECT_NE(missing.output.find("no-such-program"), std::string::npos);
  EXPECT_EQ(mprdma("run --host h0 -- /etc/passwd").exit_code, 126);
  EXPECT_EQ(mprdma("run").exit_code, 125);
}

TEST(Command, EverythingBehindTheMarkBelongsToTheProgram) {
  EXPECT_EQ(mprdma("run --host h1 -- echo --host h9 -- -x").output, "--host h9 -- -x\n");
  EXPECT_EQ(mprdma("run --host h0 -q -- printenv MPRDMA_DEVICE").output, "mprdma0\n");
}

TEST(Command, WrongOptionsAndValuesAreUsageErrors) {
  EXPECT_EQ(mprdma("run --no-such-option=3 -- true").exit_code, 2);
  EXPECT_EQ(mprdma("nonsense").exit_code, 2);
  EXPECT_EQ(mprdma("").exit_code, 2);
  EXPECT_EQ(mprdma("run --mtu 1500 -- true").exit_code, 125);
}

TEST(Command, NumbersAreFiniteAndWithinTheirRange) {
  const char* const wrong[] = {"top --interval nan",
                               "top --interval inf",
                               "top --interval 1s",
                               "top --count -1",
                               "sim report --jobs 4294967295",
                               "sim run --seed -1 x",
                               "fabric show --interval nan",
                               "doctor --path 10.0.0.1 --ports 0x10"};
  for (const char* arguments : wrong) {
    const Outcome outcome = mprdma(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << arguments;
    EXPECT_NE(outcome.output.find(": expected a "), std::string::npos) << outcome.output;
  }
}

TEST(Command, DoctorLooksForTheDaemonThatIsNamed) {
  const std::string socket = "/tmp/mprdma-command-test-none.sock";
  const Outcome checks = mprdma("doctor", "MPRDMA_PORT=daemon:" + socket);
  EXPECT_EQ(checks.exit_code, 1);
  EXPECT_NE(checks.output.find("none answers at " + socket), std::string::npos) << checks.output;
  const Outcome path = mprdma("doctor --path 10.0.0.1", "MPRDMA_PORT=daemon:" + socket);
  EXPECT_NE(path.output.find("no mprdmad answers at " + socket), std::string::npos) << path.output;
}

TEST(Command, WrongValueIsNamedAsItWasGiven) {
  const Outcome option = mprdma("run --mode iwarp -- true");
  EXPECT_EQ(option.exit_code, 125);
  EXPECT_NE(option.output.find("--mode iwarp (MPRDMA_MODE=iwarp: expected"), std::string::npos)
      << option.output;
  setenv("MPRDMA_MODE", "iwarp", 1);
  const Outcome variable = mprdma("run -- true");
  unsetenv("MPRDMA_MODE");
  EXPECT_EQ(variable.exit_code, 125);
  EXPECT_EQ(variable.output.find("--mode"), std::string::npos) << variable.output;
}

TEST(Command, VersionAndHelp) {
  EXPECT_NE(mprdma("--version").output.find("wire version 1"), std::string::npos);
  EXPECT_EQ(mprdma("--help").exit_code, 0);
  EXPECT_EQ(mprdma("run --help").exit_code, 0);
  const Outcome json = mprdma("version --json -");
  EXPECT_EQ(json.exit_code, 0);
  EXPECT_EQ(json.output[0], '{');
}

TEST(Command, ProgramsSeeTheDevice) {
  const Outcome devices = mprdma("run --host h0 -- " MPRDMA_COMMAND " doctor --devices");
  EXPECT_EQ(devices.exit_code, 0);
  EXPECT_NE(devices.output.find("mprdma0"), std::string::npos) << devices.output;
}

}  // namespace
}  // namespace mprdma::tools
