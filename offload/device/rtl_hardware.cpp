#include "offload/device/rtl_hardware.hpp"

#include <optional>
#include <utility>

#include "base/check.hpp"

namespace mprdma::offload {

namespace {

using transport::HardwareSender;
using transport::OffloadPacketOut;
using transport::Params;

SenderSettings settings_of(const Params& params) {
  return {.initial_window = params.initial_window,
          .max_window = params.window_max,
          .delta = params.reorder_delta};
}

// One connection of the module.
class RtlSender : public HardwareSender {
 public:
  RtlSender(std::shared_ptr<RtlModule> module, uint32_t connection)
      : module_(std::move(module)), connection_(connection) {}
  ~RtlSender() override { module_->give_back(connection_); }
  RtlSender(const RtlSender&) = delete;
  RtlSender& operator=(const RtlSender&) = delete;

  void load(Time now, const State& state) override {
    SenderRequest request;
    request.connection = connection_;
    request.now_ns = now.ns();
    request.state = {.context = state.context,
                     .una = state.una.value(),
                     .nxt = state.nxt.value(),
                     .backoff = state.backoff};
    module_->run(request);
  }
  Answer step(const Event& event) override {
    SenderRequest request;
    request.connection = connection_;
    request.kind = static_cast<SenderRequest::Kind>(event.kind);
    request.now_ns = event.now.ns();
    request.has_new = event.has_new;
    request.explore = event.explore;
    request.path = event.path;
    request.ack = event.ack;
    const SenderReply reply = module_->run(request);
    Answer out{.refused = reply.refused,
               .packet = std::nullopt,
               .restarts = reply.restarts,
               .progresses = reply.progresses,
               .state = {.context = reply.state.context,
                         .una = Psn(reply.state.una),
                         .nxt = Psn(reply.state.nxt),
                         .backoff = reply.state.backoff}};
    if (reply.packet == 0) return out;
    // In the order of OffloadPacketOut::Kind, from 1 on.
    out.packet = {.kind = static_cast<OffloadPacketOut::Kind>(reply.packet - 1),
                  .psn = Psn(reply.psn),
                  .vp = reply.vp};
    return out;
  }

 private:
  std::shared_ptr<RtlModule> module_;
  uint32_t connection_;
};

}  // namespace

RtlModule::RtlModule(const SenderSettings& settings) : device_(1, 0, settings) {
  for (uint32_t i = SenderDevice::kConnections; i > 0; --i) free_.push_back(i - 1);
}

uint32_t RtlModule::take_connection() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) return UINT32_MAX;
  const uint32_t connection = free_.back();
  free_.pop_back();
  return connection;
}

void RtlModule::give_back(uint32_t connection) {
  const std::lock_guard lock(mutex_);
  free_.push_back(connection);
}

SenderReply RtlModule::run(const SenderRequest& request) {
  // More than the module takes for any request.
  constexpr int kCyclesMax = 100;
  const std::lock_guard lock(mutex_);
  bool taken = false;
  for (int i = 0; i < kCyclesMax; ++i) {
    const SenderDevice::Cycle cycle = device_.step(taken ? nullptr : &request);
    taken = taken || cycle.taken;
    if (cycle.reply) return *cycle.reply;
  }
  CHECK(!"the module answers");
  return {};
}

RtlHardware::RtlHardware(const Params& params)
    : settings_(settings_of(params)), module_(std::make_shared<RtlModule>(settings_)) {}

std::unique_ptr<HardwareSender> RtlHardware::open_sender(const Params& params) {
  // What the peer agreed may be less.
  const bool fits =
      params.window_slots == transport::OffloadContext::kSlots && settings_of(params) == settings_;
  if (!fits) return nullptr;
  const uint32_t connection = module_->take_connection();
  if (connection == UINT32_MAX) return nullptr;
  return std::make_unique<RtlSender>(module_, connection);
}

}  // namespace mprdma::offload
