// The C functions of engine.h: one engine for each process, made by the first connect.
#include "dataplane/engine/engine.h"

#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>

#include "dataplane/engine/engine.hpp"
#include "dataplane/sys/no_cancellation.hpp"
#include "dataplane/sys/runtime_directory.hpp"

namespace {

using mprdma::Status;
using mprdma::dataplane::Config;
using mprdma::dataplane::Engine;
using mprdma::dataplane::EngineClient;

// Never destroyed: threads of the application may be in here while the process exits.
struct Process {
  std::mutex mutex;
  Engine* engine = nullptr;
};

Process& process() {
  static auto* const instance = new Process;
  return *instance;
}

void before_fork() {
  process().mutex.lock();
}

void after_fork_in_parent() {
  process().mutex.unlock();
}

// The child keeps the memory of the parent's engine, for channels that point into it, and nothing
// else of it.
void after_fork_in_child() {
  Process& self = process();
  if (self.engine != nullptr) self.engine->abandon_in_child();
  self.engine = nullptr;
  self.mutex.unlock();
}

void register_fork_handlers() {
  static const int once = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  (void)once;
}

int report_error(const Status& status) {
  std::fprintf(stderr, "mprdma: %s\n", status.text.c_str());
  return status.error;
}

bool counters_wanted() {
  const char* value = std::getenv("MPRDMA_COUNTERS");
  return value != nullptr && value[0] != '\0';
}

// A program that ends without closing its verbs context.
__attribute__((destructor)) void at_exit() {
  Process& self = process();
  if (!self.mutex.try_lock()) return;
  if (self.engine != nullptr) {
    self.engine->withdraw();
    if (counters_wanted()) self.engine->print_counters();
  }
  self.mutex.unlock();
}

int connect_locked(Process& self, const mprdma_abi_client& client, mprdma_abi_channel* channel) {
  if (self.engine == nullptr) {
    Config config;
    const auto environment = [](const char* name) { return std::getenv(name); };
    std::unique_ptr<Engine> engine;
    Status status = load_config(environment, &config);
    if (status.ok()) status = Engine::create(config, &engine);
    if (!status.ok()) return report_error(status);
    self.engine = engine.release();
    self.engine->publish(mprdma::dataplane::runtime_directory(environment, geteuid()));
  }
  self.engine->connect(client, channel);
  return 0;
}

}  // namespace

int mprdma_engine_connect(const struct mprdma_abi_client* client,
                          struct mprdma_abi_channel* channel) {
  if (client == nullptr || channel == nullptr) return EINVAL;
  const mprdma::dataplane::NoCancellation whole;
  if (client->abi_major != MPRDMA_ABI_MAJOR) {
    return report_error(
        {EPROTONOSUPPORT, "the provider speaks queue ABI " + std::to_string(client->abi_major) +
                              ", this engine " + std::to_string(MPRDMA_ABI_MAJOR) +
                              ": provider and engine have to come from the same installation"});
  }
  Process& self = process();
  register_fork_handlers();
  const std::lock_guard<std::mutex> guard(self.mutex);
  try {
    return connect_locked(self, *client, channel);
  } catch (const std::bad_alloc&) {
    return report_error({ENOMEM, "not enough memory for the engine"});
  } catch (const std::exception& failure) {
    return report_error({ENODEV, std::string("cannot start the engine: ") + failure.what()});
  }
}

void mprdma_engine_disconnect(struct mprdma_abi_channel* channel) {
  if (channel == nullptr || channel->engine == nullptr) return;
  const mprdma::dataplane::NoCancellation whole;
  Process& self = process();
  const std::lock_guard<std::mutex> guard(self.mutex);
  auto* client = static_cast<EngineClient*>(channel->engine);
  // A channel of the parent in a child after fork: there is nothing to end.
  if (client->engine != self.engine) return;
  if (self.engine->disconnect(client)) {
    if (counters_wanted()) self.engine->print_counters();
    delete self.engine;
    self.engine = nullptr;
  }
  channel->engine = nullptr;
}

void mprdma_engine_limits(struct mprdma_abi_device_info* info) {
  *info = mprdma::dataplane::device_limits();
}
