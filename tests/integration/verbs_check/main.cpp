// verbs_check: a program of plain verbs that checks what an application may rely on: contents,
// order of completions, statuses. Two processes, one with --server, one with --client, over any
// wire.
#include <unistd.h>

#include "tests/integration/verbs_check/args.hpp"
#include "tests/integration/verbs_check/modes.hpp"
#include "tests/integration/verbs_check/oob.hpp"
#include "tests/integration/verbs_check/verbs.hpp"

namespace mprdma::verbs_check {

namespace {

void run(const Args& args) {
  set_role(args.server ? "server" : "client");
  alarm(300);  // in any case
  Device device(args);
  Oob oob = args.server ? Oob::listen(args.socket_path) : Oob::dial(args.socket_path);
  if (args.server) oob.accept();
  switch (args.mode) {
    case Mode::kTraffic:
      run_traffic(args, device, oob);
      break;
    case Mode::kLastByte:
      run_last_byte(args, device, oob);
      break;
    case Mode::kKillPeer:
      run_kill_peer(args, device, oob);
      break;
    case Mode::kBad:
      run_bad(args, device, oob);
      break;
    case Mode::kOrdering:
      run_ordering(args, device, oob);
      break;
    case Mode::kIdle:
      run_idle(args, device, oob);
      break;
  }
}

}  // namespace

}  // namespace mprdma::verbs_check

int main(int argc, char** argv) {
  mprdma::verbs_check::run(mprdma::verbs_check::parse_args(argc, argv));
  return 0;
}
