#include "dataplane/sys/memory_fault.hpp"

#include <unistd.h>

#include <csignal>
#include <cstddef>

#include "dataplane/sys/no_cancellation.hpp"

namespace mprdma::dataplane {

namespace {

struct sigaction g_before_segv;
struct sigaction g_before_bus;

// Uses only async-signal-safe functions.
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

bool has_handler(const struct sigaction& action) {
  return action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN;
}

// By a process, or as a warning of memory that nobody has touched yet: no instruction made it.
bool was_sent(int signal, const siginfo_t* info) {
  return info->si_code <= 0 || (signal == SIGBUS && info->si_code == BUS_MCEERR_AO);
}

void pass_on(int signal, siginfo_t* info, void* context) {
  const struct sigaction& before = signal == SIGSEGV ? g_before_segv : g_before_bus;
  if (has_handler(before)) {
    if ((before.sa_flags & SA_SIGINFO) != 0) {
      before.sa_sigaction(signal, info, context);
    } else {
      before.sa_handler(signal);
    }
    return;
  }
  // Of a fault the kernel does not let itself be told to ignore it, either.
  const bool sent = was_sent(signal, info);
  if (sent && before.sa_handler == SIG_IGN) return;
  // A fault comes again with its instruction, and does what it does by default. What was sent is
  // sent again, and comes when this handler has returned.
  ::signal(signal, SIG_DFL);
  if (sent) raise(signal);
}

void on_fault(int signal, siginfo_t* info, void* context) {
  const auto fault = reinterpret_cast<uint64_t>(info->si_addr);
  volatile CopyUnderWay& copy = detail::t_copy_under_way;
  if (copy.bytes > 0 && !was_sent(signal, info) && fault - copy.addr < copy.bytes) {
    const NoCancellation whole;
    report(fault);
    copy.bytes = 0;
  }
  pass_on(signal, info, context);
}

// What the kernel does for the handler that was there, it does for ours, which calls it: signals
// that are blocked meanwhile, a handler for one time only, system calls that go on.
void install(int signal, struct sigaction* before) {
  sigaction(signal, nullptr, before);
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  if (has_handler(*before)) {
    action.sa_flags |= before->sa_flags & (SA_NODEFER | SA_RESETHAND | SA_RESTART);
    action.sa_mask = before->sa_mask;
  } else {
    action.sa_flags |= SA_RESTART;  // one that is ignored interrupts nothing
  }
  sigaction(signal, &action, nullptr);
}

}  // namespace

void install_fault_report() {
  static bool installed = false;
  if (installed) return;
  installed = true;
  install(SIGSEGV, &g_before_segv);
  install(SIGBUS, &g_before_bus);
}

}  // namespace mprdma::dataplane
