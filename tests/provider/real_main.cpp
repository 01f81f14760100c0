// main() of tests over the real engine: one process, whose device talks to itself over a wire in a
// directory of its own.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/provider/process.hpp"
#include "tests/support/temporary_directory.hpp"

int main(int argc, char** argv) {
  mprdma::provider_test::relaunch_under_preload(argv);
  const mprdma::TemporaryDirectory directory;
  setenv("MPRDMA_PORT", ("local:" + directory.path("wire")).c_str(), 1);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
