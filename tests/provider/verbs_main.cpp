// main() of the tests that are themselves verbs applications: they run under the preload.
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/provider/process.hpp"

int main(int argc, char** argv) {
  mprdma::provider_test::relaunch_under_preload(argv);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
