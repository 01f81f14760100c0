#include "tools/interrupt.hpp"

#include <csignal>

namespace mprdma::tools {

namespace {

std::atomic<bool> g_stop = false;
std::atomic<int> g_signal = 0;
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

constexpr int kSignals[] = {SIGINT, SIGTERM};
constexpr int kExitSignalled = 128;

void on_signal(int number) {
  g_signal.store(number, std::memory_order_relaxed);
  g_stop.store(true, std::memory_order_relaxed);
  for (const int each : kSignals) std::signal(each, SIG_DFL);
}

}  // namespace

Interruptible::Interruptible() {
  g_stop = false;
  for (const int number : kSignals) std::signal(number, on_signal);
}

Interruptible::~Interruptible() {
  for (const int number : kSignals) std::signal(number, SIG_DFL);
}

const std::atomic<bool>* Interruptible::stop() const {
  return &g_stop;
}

bool Interruptible::stopped() const {
  return g_stop.load(std::memory_order_relaxed);
}

int Interruptible::exit_code() const {
  return kExitSignalled + g_signal.load(std::memory_order_relaxed);
}

}  // namespace mprdma::tools
