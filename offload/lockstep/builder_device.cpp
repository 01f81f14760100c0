#include "offload/lockstep/builder_device.hpp"

#include <Vmp_builder.h>

#include "offload/lockstep/frame_ports.hpp"
#include "offload/lockstep/verilated_module.hpp"
#ifdef MPRDMA_RTL_MUTANTS
#include <Vmp_builder_mp_mutant.h>
#endif

namespace mprdma::offload {

BuilderDevice::BuilderDevice(int seed, uint32_t mutant)
    : module_(std::make_unique<VerilatedModule<Vmp_builder>>(seed, mutant)) {
  (*module_)->payload_valid = 0;
}

BuilderDevice::~BuilderDevice() = default;

void BuilderDevice::record(const std::string& path) {
  module_->record(path);
}

BuilderDevice::Cycle BuilderDevice::step(const Inputs& inputs) {
  VerilatedModule<Vmp_builder>& top = *module_;
  top->in_valid = inputs.packet != nullptr ? 1 : 0;
  if (inputs.packet != nullptr) {
    put_address(*inputs.address, *inputs.packet, top->in_address);
    put_packet(fields_of(*inputs.packet), top->in_packet);
  }
  top->payload_valid = inputs.payload != nullptr ? 1 : 0;
  if (inputs.payload != nullptr) {
    Writer out(top->payload_data);
    for (const uint8_t byte : *inputs.payload) out.put(byte, 8);
  }
  top.begin();
  Cycle out;
  out.took_packet = inputs.packet != nullptr && top->in_ready != 0;
  out.took_payload = inputs.payload != nullptr && top->payload_ready != 0;
  if (top->out_valid != 0) {
    Reader in(top->out_data);
    FrameBeat& beat = out.beat.emplace();
    for (uint8_t& byte : beat.data) byte = static_cast<uint8_t>(in.get(8));
    beat.last = top->out_last != 0;
    beat.bytes = top->out_bytes;
  }
  top.end();
  return out;
}

BuilderDevice::Cycle BuilderDevice::reset(const Inputs& inputs) {
  (*module_)->reset = 1;
  const Cycle out = step(inputs);
  (*module_)->reset = 0;
  return out;
}

}  // namespace mprdma::offload
