#include "offload/lockstep/receiver_device.hpp"

#include <Vmp_receiver.h>
#include <fmt/format.h>

#include "offload/lockstep/verilated_module.hpp"
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

std::string ReceiverRequest::text() const {
  if (load) return fmt::format("connection {}: load", connection);
  return fmt::format("connection {}: PSN {} slot {} synchronise {} packets_before {}", connection,
                     packet.psn.value(), static_cast<int>(packet.slot), packet.synchronise,
                     packet.packets_before);
}

std::string ReceiverReply::text() const {
  return fmt::format(
      "connection {}: placed {} duplicate {} nack {} behind_hole {} map {:016x} completions {}, "
      "rcv_nxt {} msn {} slots {:016x}{:016x}",
      connection, placed, duplicate, nack, behind_hole, map, completions, context.nxt, context.msn,
      context.slots_high, context.slots_low);
}

ReceiverDevice::ReceiverDevice(int seed, uint32_t mutant)
    : module_(std::make_unique<VerilatedModule<Vmp_receiver>>(seed, mutant)) {}

ReceiverDevice::~ReceiverDevice() = default;

void ReceiverDevice::record(const std::string& path) {
  module_->record(path);
}

ReceiverDevice::Cycle ReceiverDevice::step(const ReceiverRequest* request) {
  VerilatedModule<Vmp_receiver>& top = *module_;
  top->in_valid = request != nullptr ? 1 : 0;
  if (request != nullptr) {
    top->in_connection = static_cast<uint16_t>(request->connection);
    top->in_load = request->load ? 1 : 0;
    put(request->context, top->in_context);
    top->in_psn = request->packet.psn.value();
    top->in_slot = static_cast<uint8_t>(request->packet.slot);
    top->in_synchronise = request->packet.synchronise ? 1 : 0;
    top->in_packets_before = request->packet.packets_before;
  }
  top.begin();
  Cycle out;
  out.taken = request != nullptr && top->in_ready != 0;
  if (top->out_valid != 0) out.reply = reply();
  top.end();
  return out;
}

bool ReceiverDevice::reset(const ReceiverRequest& request) {
  (*module_)->reset = 1;
  const bool taken = step(&request).taken;
  (*module_)->reset = 0;
  return taken;
}

ReceiverReply ReceiverDevice::reply() {
  VerilatedModule<Vmp_receiver>& top = *module_;
  return {.connection = top->out_connection,
          .placed = top->out_placed != 0,
          .duplicate = top->out_duplicate != 0,
          .nack = top->out_nack,
          .behind_hole = top->out_behind_hole != 0,
          .map = top->out_map,
          .completions = top->out_completions,
          .context = get(top->out_context)};
}

}  // namespace mprdma::offload
