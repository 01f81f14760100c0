#include "base/status.hpp"

#include <gtest/gtest.h>

#include <cerrno>

namespace mprdma {
namespace {

TEST(Status, SaysNothingOfSuccessAndBothErrnoAndTextOfAFailure) {
  const Status success;
  EXPECT_TRUE(success.ok());
  EXPECT_EQ(success.text, "");
  const Status failure = {EINVAL, "mtu: 9000; expected 1024, 2048 or 4096"};
  EXPECT_FALSE(failure.ok());
  EXPECT_EQ(failure.error, EINVAL);
}

TEST(Status, OfASystemCallEndsInTheSystemsWordsForTheErrno) {
  const Status failure = system_status("cannot open a.toml", ENOENT);
  EXPECT_EQ(failure.error, ENOENT);
  EXPECT_EQ(failure.text, "cannot open a.toml: No such file or directory");
  EXPECT_EQ(system_status("cannot open a.toml", 0).error, EIO) << "a failure stays one";
}

TEST(Status, APrefixGoesBeforeAnErrorAndLeavesSuccessAlone) {
  const Status failure = prefixed("host a: ", {EACCES, "no permission"});
  EXPECT_EQ(failure.error, EACCES);
  EXPECT_EQ(failure.text, "host a: no permission");
  EXPECT_TRUE(prefixed("host a: ", {}).ok());
  EXPECT_EQ(prefixed("host a: ", {}).text, "");
}

}  // namespace
}  // namespace mprdma
