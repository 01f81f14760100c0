#include "dataplane/fault_report.hpp"

#include <unistd.h>

#include <csignal>
#include <cstddef>

namespace mprdma::dataplane {

namespace {

struct sigaction g_before_segv;
struct sigaction g_before_bus;

// Only what a signal handler may do.
class Line {
 public:
  void text(const char* s) {
    while (*s != 0 && used_ < sizeof(buffer_)) buffer_[used_++] = *s++;
  }
  void hex(uint64_t value) {
    text("0x");
    bool started = false;
    for (int shift = 60; shift >= 0; shift -= 4) {
      const auto digit = static_cast<unsigned>(value >> shift) & 15;
      started |= digit != 0 || shift == 0;
      if (started && used_ < sizeof(buffer_)) buffer_[used_++] = "0123456789abcdef"[digit];
    }
  }
  void print() { (void)!write(STDERR_FILENO, buffer_, used_); }

 private:
  char buffer_[320];
  size_t used_ = 0;
};

void report(uint64_t fault) {
  const volatile CopyUnderWay& copy = detail::t_copy_under_way;
  Line line;
  line.text("mprdma: address ");
  line.hex(fault);
  line.text(" is registered memory (queue pair ");
  line.hex(copy.qpn);
  line.text(" copies ");
  line.hex(copy.bytes);
  line.text(" bytes at ");
  line.hex(copy.addr);
  line.text("), but cannot be accessed: it was unmapped or protected before ibv_dereg_mr()\n");
  line.print();
}

void pass_on(int signal, siginfo_t* info, void* context) {
  const struct sigaction& before = signal == SIGSEGV ? g_before_segv : g_before_bus;
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(signal, info, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(signal);
  } else {
    // The instruction is run again, and the signal does what it does by default.
    ::signal(signal, SIG_DFL);
  }
}

void on_fault(int signal, siginfo_t* info, void* context) {
  const auto fault = reinterpret_cast<uint64_t>(info->si_addr);
  volatile CopyUnderWay& copy = detail::t_copy_under_way;
  if (copy.bytes > 0 && fault - copy.addr < copy.bytes) {
    report(fault);
    copy.bytes = 0;
  }
  pass_on(signal, info, context);
}

}  // namespace

void install_fault_report() {
  static bool installed = false;
  if (installed) return;
  installed = true;
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(SIGSEGV, &action, &g_before_segv);
  sigaction(SIGBUS, &action, &g_before_bus);
}

}  // namespace mprdma::dataplane
