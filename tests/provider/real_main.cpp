// main() of tests over the real engine: one process, whose device talks to itself over a wire in a
// directory of its own.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/provider/process.hpp"

int main(int argc, char** argv) {
  const char* directory = getenv("MPRDMA_TEST_DIRECTORY");
  if (directory == nullptr) {
    std::string made = std::filesystem::temp_directory_path() / "mprdma-provider-XXXXXX";
    if (mkdtemp(made.data()) == nullptr) return 1;
    setenv("MPRDMA_TEST_DIRECTORY", made.c_str(), 1);
    setenv("MPRDMA_PORT", ("local:" + made + "/wire").c_str(), 1);
  }
  mprdma::provider_test::relaunch_under_preload(argv);
  ::testing::InitGoogleTest(&argc, argv);
  const int result = RUN_ALL_TESTS();
  std::error_code ignored;
  std::filesystem::remove_all(directory, ignored);
  return result;
}
