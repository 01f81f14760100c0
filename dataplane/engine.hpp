// The embedded engine of a process: configuration, port, worker, helper, and the clients (verbs
// contexts) that share them. Behind the C functions of engine.h; see there.
//
// Created by the first connect, destroyed by the last disconnect. In a child after fork the
// parent's engine is a corpse: nothing of it is run or freed, and the child's next connect starts
// another.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "abi/mprdma_abi.h"
#include "dataplane/commands.hpp"
#include "dataplane/config.hpp"
#include "dataplane/progress.hpp"
#include "dataplane/top_server.hpp"
#include "dataplane/worker.hpp"

namespace mprdma::dataplane {

class Engine;

// What channel.engine points to.
struct EngineClient {
  Engine* engine = nullptr;
  mprdma_abi_client callbacks{};
};

class Engine : private TopSource {
 public:
  // Null: *error is an errno value and *message one line that says what to do.
  static std::unique_ptr<Engine> create(const Config& config, int* error, std::string* message);
  // The same over a port that is open already (tests).
  static std::unique_ptr<Engine> create_over(const Config& config, std::unique_ptr<Port> port,
                                             uint64_t seed, int* error, std::string* message);
  ~Engine() override;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  EngineClient* connect(const mprdma_abi_client& callbacks, mprdma_abi_channel* channel);
  // True if it was the last one.
  bool disconnect(EngineClient* client);

  // Lets `mprdma top` see this process, if the directory can be used; else that is counted.
  void publish(const std::string& directory);
  // The process ends: it is not to be seen any more, and the peers of its connections are told.
  void withdraw();

  // Counters that are not zero, on standard error.
  void print_counters();

  // In a child after fork.
  void abandon_in_child();

 private:
  Engine(const Config& config, std::unique_ptr<Port> port, uint64_t seed);

  int execute_locked(EngineClient& client, const Commands::Call& call);
  int execute_cm(EngineClient& client, const Commands::Call& call);
  static int execute_entry(void* engine, uint32_t command, const void* in, size_t in_bytes,
                           void* out, size_t out_bytes);
  static void progress_entry(void* engine);
  static void kick_entry(void* engine);
  static void idle_entry(void* engine);

  void top_head(TopHead* out) override;
  size_t top_records(uint32_t* next, std::span<TopRecord> out) override;

  std::string device_name_;
  Worker worker_;
  Commands commands_;
  Progress progress_;
  std::vector<std::unique_ptr<EngineClient>> clients_;
  std::atomic<bool> dead_{false};
  std::unique_ptr<TopServer> top_;
};

}  // namespace mprdma::dataplane
