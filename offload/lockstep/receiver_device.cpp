#include "offload/lockstep/receiver_device.hpp"

#include <Vmp_receiver.h>
#include <verilated.h>
#include <verilated_vcd_c.h>

#include "base/check.hpp"
#ifdef MPRDMA_RTL_MUTANTS
#include <Vmp_receiver_mp_mutant.h>
#endif

namespace mprdma::offload {

namespace {

// 176 bits, lowest word first: rcv_nxt 24, msn 24, slots 128.
void put(const ReceiverContext& context, VlWide<6>& words) {
  const uint64_t low =
      uint64_t{context.nxt} | uint64_t{context.msn} << 24 | context.slots_low << 48;
  const uint64_t middle = context.slots_low >> 16 | context.slots_high << 48;
  const uint64_t high = context.slots_high >> 16;
  words[0] = static_cast<uint32_t>(low);
  words[1] = static_cast<uint32_t>(low >> 32);
  words[2] = static_cast<uint32_t>(middle);
  words[3] = static_cast<uint32_t>(middle >> 32);
  words[4] = static_cast<uint32_t>(high);
  words[5] = static_cast<uint32_t>(high >> 32);
}

ReceiverContext get(const VlWide<6>& words) {
  const uint64_t low = uint64_t{words[0]} | uint64_t{words[1]} << 32;
  const uint64_t middle = uint64_t{words[2]} | uint64_t{words[3]} << 32;
  const uint64_t high = uint64_t{words[4]} | uint64_t{words[5]} << 32;
  return {.slots_low = low >> 48 | middle << 16,
          .slots_high = middle >> 48 | high << 16,
          .msn = static_cast<uint32_t>(low >> 24 & kPsnMask),
          .nxt = static_cast<uint32_t>(low & kPsnMask)};
}

}  // namespace

ReceiverDevice::ReceiverDevice(int seed, uint32_t mutant)
    : context_(std::make_unique<VerilatedContext>()) {
  context_->randSeed(seed);
  context_->randReset(2);
  top_ = std::make_unique<Vmp_receiver>(context_.get());
#ifdef MPRDMA_RTL_MUTANTS
  top_->__PVT__mp_mutant->number = mutant;
#else
  CHECK(mutant == 0);
#endif
  // The first eval() only settles: an edge in it is lost.
  top_->clock = 0;
  top_->reset = 1;
  top_->in_valid = 0;
  top_->eval();
  for (int i = 0; i < 3; ++i) step(nullptr);
  top_->reset = 0;
}

ReceiverDevice::~ReceiverDevice() {
  if (waveform_) waveform_->close();
  top_->final();
}

void ReceiverDevice::record(const std::string& path) {
  context_->traceEverOn(true);
  waveform_ = std::make_unique<VerilatedVcdC>();
  constexpr int kLevels = 99;
  top_->trace(waveform_.get(), kLevels);
  waveform_->open(path.c_str());
}

void ReceiverDevice::settle(bool clock) {
  top_->clock = clock ? 1 : 0;
  top_->eval();
  if (waveform_) waveform_->dump(2 * cycles_ + (clock ? 1 : 0));
}

ReceiverDevice::Cycle ReceiverDevice::step(const ReceiverRequest* request) {
  ++cycles_;
  top_->in_valid = request != nullptr ? 1 : 0;
  if (request != nullptr) {
    top_->in_connection = static_cast<uint16_t>(request->connection);
    top_->in_load = request->load ? 1 : 0;
    put(request->context, top_->in_context);
    top_->in_psn = request->packet.psn.value();
    top_->in_slot = static_cast<uint8_t>(request->packet.slot);
    top_->in_synchronise = request->packet.synchronise ? 1 : 0;
    top_->in_packets_before = request->packet.packets_before;
  }
  settle(false);
  Cycle out;
  out.taken = request != nullptr && top_->in_ready != 0;
  if (top_->out_valid != 0) out.reply = reply();
  settle(true);
  return out;
}

bool ReceiverDevice::reset(const ReceiverRequest& request) {
  top_->reset = 1;
  const bool taken = step(&request).taken;
  top_->reset = 0;
  return taken;
}

ReceiverReply ReceiverDevice::reply() const {
  return {.connection = top_->out_connection,
          .placed = top_->out_placed != 0,
          .duplicate = top_->out_duplicate != 0,
          .nack = top_->out_nack,
          .behind_hole = top_->out_behind_hole != 0,
          .map = top_->out_map,
          .completions = top_->out_completions,
          .context = get(top_->out_context)};
}

}  // namespace mprdma::offload
