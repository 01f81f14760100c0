// The embedded engine of a process: configuration, port, worker, helper, and the clients (verbs
// contexts) that share them. Implements the C functions of engine.h.
//
// Created by the first connect, destroyed by the last disconnect. In a child after fork the
// parent's engine is neither run nor freed, and the child's next connect starts another.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "abi/mprdma_abi.h"
#include "base/status.hpp"
#include "dataplane/engine/commands.hpp"
#include "dataplane/engine/config.hpp"
#include "dataplane/engine/progress.hpp"
#include "dataplane/engine/top_server.hpp"
#include "dataplane/engine/trace_ring.hpp"
#include "dataplane/worker/worker.hpp"
#include "transport/stream/hardware.hpp"

namespace mprdma::dataplane {

class Engine;

// Target of channel.engine.
struct EngineClient {
  Engine* engine = nullptr;
  mprdma_abi_client callbacks{};
};

class Engine : private TopSource {
 public:
  static Status create(const Config& config, std::unique_ptr<Engine>* out);
  // Creates an engine over an open port (tests).
  static Status create_over(const Config& config, std::unique_ptr<Port> port, uint64_t seed,
                            std::unique_ptr<Engine>* out);
  ~Engine() override;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  EngineClient* connect(const mprdma_abi_client& callbacks, mprdma_abi_channel* channel);
  // True if the last client disconnected.
  bool disconnect(EngineClient* client);

  // Makes the process visible to `mprdma top`; a directory that cannot be used is counted.
  void publish(const std::string& directory);
  // Called when the process ends: hides it from `mprdma top`, and tells the peers of its
  // connections.
  void withdraw();

  // Counters that are not zero, on standard error.
  void print_counters();

  // In a child after fork.
  void abandon_in_child();

 private:
  Engine(const Config& config, std::unique_ptr<Port> port, uint64_t seed,
         std::unique_ptr<TraceRing> trace, std::unique_ptr<transport::Hardware> hardware);

  int execute_locked(EngineClient& client, const Commands::Call& call);
  int execute_cm(EngineClient& client, const Commands::Call& call);
  static int execute_entry(void* engine, uint32_t command, const void* in, size_t in_bytes,
                           void* out, size_t out_bytes);
  static void progress_entry(void* engine);
  static void send_entry(void* engine, uint32_t doorbell);
  static void kick_entry(void* engine);
  static void idle_entry(void* engine);

  void top_head(TopHead* out) override;
  size_t top_records(uint32_t* next, std::span<TopRecord> out) override;

  std::string device_name_;
  std::unique_ptr<TraceRing> trace_;               // nullptr: nothing is traced
  std::unique_ptr<transport::Hardware> hardware_;  // nullptr: software keeps all streams
  Worker worker_;
  Commands commands_;
  Progress progress_;
  std::vector<std::unique_ptr<EngineClient>> clients_;
  const bool port_calls_system_;  // PortInfo
  std::atomic<bool> dead_{false};
  std::unique_ptr<TopServer> top_;
};

}  // namespace mprdma::dataplane
