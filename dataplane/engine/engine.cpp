#include "dataplane/engine/engine.hpp"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <new>

#include "dataplane/engine/all_counters.hpp"
#include "dataplane/engine/hardware_module.hpp"
#include "dataplane/open_port.hpp"
#include "dataplane/port/fault_port.hpp"
#include "dataplane/port/frame_size.hpp"
#include "dataplane/sys/memory_fault.hpp"
#include "dataplane/sys/no_cancellation.hpp"
#include "dataplane/worker/qp_params.hpp"

namespace mprdma::dataplane {

namespace {

uint64_t placement_features(transport::PlacementPolicy policy) {
  switch (policy) {
    case transport::PlacementPolicy::kStandard:
      return MPRDMA_ABI_FEATURE_RELAXED_ORDERING;
    case transport::PlacementPolicy::kRelaxed:
      return MPRDMA_ABI_FEATURE_RELAXED_ORDERING | MPRDMA_ABI_FEATURE_RELAXED_ALWAYS;
    case transport::PlacementPolicy::kOrdered:
      return 0;
  }
  return 0;
}

WorkerConfig worker_config(const Config& config, uint64_t seed, TraceRing* trace,
                           transport::Hardware* hardware) {
  WorkerConfig out;
  out.mac = config.mac;
  out.ipv4 = config.ipv4;
  out.mtu = config.mtu;
  out.held_frames = config.held_frames;
  out.pfc = config.pfc;
  out.pfc_priority = config.pfc_priority;
  out.seed = seed;
  out.params = config.params;
  out.agree_modes = config.agree_modes;
  out.trace = trace;
  out.hardware = hardware;
  return out;
}

// DPDK's vhost-user client looks for its peer once a second.
constexpr Duration kPeerWait = Duration::ms(1500);
constexpr useconds_t kPeerPollUs = 2000;

// The first verb that needs the engine returns when the link is up: otherwise the peer, which the
// application tells of its queue pairs next, sends to a port that is not there yet and may run out
// of retries. An adapter's link is up before the application starts. A peer that is not running is
// not waited for any longer than kPeerWait.
void wait_for_peer(Port& port) {
  const Time until = clock_now() + kPeerWait;
  while (port.expects_peer() && clock_now() < until) {
    usleep(kPeerPollUs);
    port.service(clock_now());
  }
}

// Of the queue ABI: from here on a client's channel has `send`.
constexpr uint32_t kMinorWithSend = 4;

uint64_t random_seed() {
  uint64_t seed = 0;
  if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed)) {
    seed = static_cast<uint64_t>(clock_now().ns());
  }
  return seed;
}

}  // namespace

Engine::Engine(const Config& config, std::unique_ptr<Port> port, uint64_t seed,
               std::unique_ptr<TraceRing> trace, std::unique_ptr<transport::Hardware> hardware)
    : device_name_(config.device_name),
      trace_(std::move(trace)),
      hardware_(std::move(hardware)),
      worker_(worker_config(config, seed, trace_.get(), hardware_.get()), std::move(port),
              clock_now()),
      commands_(worker_),
      progress_(worker_, config.away_max, config.real_time, trace_.get()),
      port_calls_system_(worker_.port().info().calls_system) {}

Engine::~Engine() {
  progress_.stop();
  if (trace_ != nullptr) trace_->flush();
}

Status Engine::create(const Config& config, std::unique_ptr<Engine>* out) {
  PortResult opened = open_port(config.port_spec, nullptr, true);
  if (!opened) return std::move(opened.status);
  std::unique_ptr<Port> port = std::move(opened.port);
  wait_for_peer(*port);
  if (config.fault.any()) {
    if (Daemon* daemon = port->daemon()) daemon->refuse_rings();
    port = std::make_unique<FaultPort>(std::move(port), config.fault);
  }
  return create_over(config, std::move(port), random_seed(), out);
}

Status Engine::create_over(const Config& given, std::unique_ptr<Port> port, uint64_t seed,
                           std::unique_ptr<Engine>* out) {
  Config config = given;
  if (Daemon* daemon = port->daemon()) {
    if (Status status = adopt_device(daemon->device(), &config); !status.ok()) return status;
  }
  Status status = check_frames(config.port_spec, port->info().frame_bytes_max, config.mtu,
                               "MPRDMA_MTU ([device] mtu, --mtu)");
  if (!status.ok()) return status;
  std::unique_ptr<TraceRing> trace;
  if (!config.trace.empty()) {
    trace = std::make_unique<TraceRing>();
    if (status = trace->open(config.trace); !status.ok()) return status;
  }
  std::unique_ptr<transport::Hardware> hardware;
  if (config.offload) {
    if (status = load_hardware(config.params, &hardware); !status.ok()) return status;
  }
  std::unique_ptr<Engine> engine(
      new Engine(config, std::move(port), seed, std::move(trace), std::move(hardware)));
  install_fault_report();
  const int error = engine->progress_.start();
  if (error != 0) return system_status("cannot start the engine's thread", error);
  *out = std::move(engine);
  return {};
}

EngineClient* Engine::connect(const mprdma_abi_client& callbacks, mprdma_abi_channel* channel) {
  auto client = std::make_unique<EngineClient>();
  client->engine = this;
  client->callbacks = callbacks;
  EngineClient* raw = client.get();
  uint64_t features = device_limits().features;
  progress_.command([&](Time) {
    worker_.add_client(&raw->callbacks);
    // Under the lock, because the helper writes the parameters when the port's link comes up.
    features |= placement_features(worker_.config().params.placement);
    return 0;
  });
  clients_.push_back(std::move(client));
  const bool takes_send = callbacks.abi_minor >= kMinorWithSend;
  std::memset(channel, 0, takes_send ? sizeof(*channel) : offsetof(mprdma_abi_channel, send));
  channel->abi_major = MPRDMA_ABI_MAJOR;
  channel->abi_minor = MPRDMA_ABI_MINOR;
  channel->features = features;
  channel->engine = raw;
  channel->doorbells = &worker_.doorbells();
  channel->execute = &execute_entry;
  channel->progress = &progress_entry;
  channel->kick = &kick_entry;
  channel->idle = &idle_entry;
  if (takes_send) {
    channel->send = &send_entry;
    channel->features |= MPRDMA_ABI_FEATURE_SEND;
  }
  return raw;
}

bool Engine::disconnect(EngineClient* client) {
  progress_.command([&](Time now) {
    commands_.forget_client(&client->callbacks, now);
    worker_.remove_client(&client->callbacks);
    return 0;
  });
  std::erase_if(clients_, [client](const auto& one) { return one.get() == client; });
  return clients_.empty();
}

void Engine::print_counters() {
  progress_.command([&](Time) {
    for_each_counter(worker_, [](std::string_view prefix, std::string_view name, uint64_t value) {
      if (value == 0) return;
      std::fprintf(stderr, "mprdma: %.*s%.*s %llu\n", static_cast<int>(prefix.size()),
                   prefix.data(), static_cast<int>(name.size()), name.data(),
                   static_cast<unsigned long long>(value));
    });
    return 0;
  });
}

void Engine::publish(const std::string& directory) {
  top_ = TopServer::create(directory, *this);
  if (top_ != nullptr) {
    progress_.add_side_job(top_->fd(), [this] { top_->serve(); });
    return;
  }
  progress_.command([&](Time) { return ++worker_.counters().top_unavailable; });
}

void Engine::withdraw() {
  if (top_ != nullptr) top_->withdraw();
  progress_.last_command([&](Time now) {
    worker_.nic_part().cm().forget_clients(now);
    worker_.nic_part().settle_cm(now);
    if (trace_ != nullptr) trace_->flush();
  });
}

void Engine::top_head(TopHead* out) {
  out->pid = static_cast<uint32_t>(getpid());
  std::strncpy(out->program.data(), program_invocation_short_name, out->program.size() - 1);
  std::strncpy(out->device.data(), device_name_.c_str(), out->device.size() - 1);
  progress_.command([&](Time) {
    const TopCounts counts = top_->counts();
    worker_.counters().top_replies = counts.replies;
    worker_.counters().top_refused = counts.refused;
    const PortCounters port = worker_.port().stats();
    out->qps = worker_.qps().in_use();
    out->time_ns = static_cast<uint64_t>(clock_now().ns());
    out->ipv4 = worker_.config().ipv4;
    out->link_up = worker_.link_up() ? 1 : 0;
    out->port_tx_frames = port.tx_frames;
    out->port_rx_frames = port.rx_frames;
    out->port_lost = port.tx_dropped + port.rx_no_buffer + port.rx_malformed;
    return 0;
  });
}

size_t Engine::top_records(uint32_t* next, std::span<TopRecord> out) {
  // Slots of the table visited while the lock is held once.
  constexpr uint32_t kSlotsAtOnce = 2048;
  return progress_.command([&](Time now) {
    size_t filled = 0;
    uint32_t slot = *next;
    const uint32_t end = std::min(slot + kSlotsAtOnce, kSlots);
    for (; slot < end && filled < out.size(); ++slot) {
      const QpContext* qp = worker_.qps().at_slot(slot);
      if (qp != nullptr) fill_qp_stats(*qp, now, &out[filled++]);
    }
    *next = slot == kSlots ? kTopEnd : slot;
    return filled;
  });
}

void Engine::abandon_in_child() {
  if (top_ != nullptr) top_->close_after_fork();
  if (trace_ != nullptr) trace_->abandon();
  dead_.store(true, std::memory_order_relaxed);
  progress_.abandon_in_child();
}

int Engine::execute_locked(EngineClient& client, const Commands::Call& call) {
  return progress_.command([&](Time now) {
    try {
      return commands_.execute(&client.callbacks, call, now);
    } catch (const std::bad_alloc&) {  // neither the lock nor the provider's C is left by a throw
      return ENOMEM;
    }
  });
}

// To the agent of whoever owns the wire: this engine, or mprdmad.
int Engine::execute_cm(EngineClient& client, const Commands::Call& call) {
  Daemon* daemon = worker_.port().daemon();
  if (daemon == nullptr || call.command == MPRDMA_ABI_CM_OPEN) return execute_locked(client, call);
  try {
    const int error = Commands::cm_by_daemon(*daemon, &client.callbacks, call);
    // Events are delivered with the lock held: of an id that is destroyed none is under way now.
    progress_.command([](Time) { return 0; });
    return error;
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  }
}

int Engine::execute_entry(void* engine, uint32_t command, const void* in, size_t in_bytes,
                          void* out, size_t out_bytes) {
  const NoCancellation whole;
  auto* client = static_cast<EngineClient*>(engine);
  Engine& self = *client->engine;
  if (self.dead_.load(std::memory_order_relaxed)) return ENODEV;
  const Commands::Call call{command, in, in_bytes, out, out_bytes};
  const int error = Commands::prepare(call);
  if (error != 0) return error;
  const bool cm = command == MPRDMA_ABI_CM_OPEN || command == MPRDMA_ABI_CM;
  return cm ? self.execute_cm(*client, call) : self.execute_locked(*client, call);
}

void Engine::progress_entry(void* engine) {
  Engine& self = *static_cast<EngineClient*>(engine)->engine;
  const NoCancellation whole(self.port_calls_system_);
  if (!self.dead_.load(std::memory_order_relaxed)) self.progress_.poll();
}

void Engine::send_entry(void* engine, uint32_t doorbell) {
  Engine& self = *static_cast<EngineClient*>(engine)->engine;
  const NoCancellation whole(self.port_calls_system_);
  if (!self.dead_.load(std::memory_order_relaxed)) self.progress_.send(doorbell);
}

void Engine::kick_entry(void* engine) {
  const NoCancellation whole;
  Engine& self = *static_cast<EngineClient*>(engine)->engine;
  if (!self.dead_.load(std::memory_order_relaxed)) self.progress_.kick();
}

void Engine::idle_entry(void* engine) {
  const NoCancellation whole;
  Engine& self = *static_cast<EngineClient*>(engine)->engine;
  if (!self.dead_.load(std::memory_order_relaxed)) self.progress_.idle();
}

}  // namespace mprdma::dataplane
