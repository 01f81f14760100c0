// Running programs under the preload, and running a test itself under it.
#pragma once

#include <sys/wait.h>

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

// Paths in the build directory; meson.build gives them.
#ifndef MPRDMA_TEST_PRELOAD
#define MPRDMA_TEST_PRELOAD ""
#define MPRDMA_TEST_PROVIDER ""
#define MPRDMA_TEST_ENGINE ""
#endif

namespace mprdma::provider_test {

struct Ran {
  int exit_code;
  std::string output;  // standard output and error
};

inline Ran run(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  Ran ran{-1, ""};
  if (pipe == nullptr) return ran;
  std::array<char, 4096> buffer;
  size_t bytes = 0;
  while ((bytes = fread(buffer.data(), 1, buffer.size(), pipe)) > 0) {
    ran.output.append(buffer.data(), bytes);
  }
  const int status = pclose(pipe);
  ran.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ran;
}

// The assignments that `env` needs to give a program our device, with the fake engine behind it.
inline std::string device_environment() {
  return "env LD_PRELOAD=" MPRDMA_TEST_PRELOAD " IBV_DRIVERS=" MPRDMA_TEST_PROVIDER
         " MPRDMA_ENGINE_LIBRARY=" MPRDMA_TEST_ENGINE " MPRDMA_ADDRESS=10.73.0.1/24 ";
}

// Starts this program again with the device's environment, unless it already has it.
inline void relaunch_under_preload(char** argv) {
  const char* loaded = getenv("LD_PRELOAD");
  if (loaded != nullptr && std::string(loaded) == MPRDMA_TEST_PRELOAD) return;
  setenv("LD_PRELOAD", MPRDMA_TEST_PRELOAD, 1);
  setenv("IBV_DRIVERS", MPRDMA_TEST_PROVIDER, 1);
  setenv("MPRDMA_ENGINE_LIBRARY", MPRDMA_TEST_ENGINE, 1);
  setenv("MPRDMA_ADDRESS", "10.73.0.1/24", 1);
  execv("/proc/self/exe", argv);
  perror("execv");
  _exit(127);
}

}  // namespace mprdma::provider_test
