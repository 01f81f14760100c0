// crowd: many processes on one device, each with connections to several others by rdma_cm and with
// listeners and further ids of its own. crowd.py, beside, says what they do, and kills some.
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
