// crowd: many processes on one device. Each has connections to several others by rdma_cm, and
// listeners and ids of its own. crowd.py tells them what to do, and kills some.
#include <unistd.h>

#include <cstdio>

#include "tests/integration/crowd/args.hpp"
#include "tests/integration/crowd/ids.hpp"
#include "tests/integration/crowd/member.hpp"

int main(int argc, char** argv) {
  using mprdma::crowd::Args;
  const Args args = mprdma::crowd::parse_args(argc, argv);
  mprdma::crowd::set_number(args.number);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  alarm(400);  // in any case
  if (!args.claim.empty()) {
    mprdma::crowd::claim(args);
    return 0;
  }
  mprdma::crowd::Member(args).run();
  return 0;
}
