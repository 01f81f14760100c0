// The verilated builder (offload/rtl/mp_builder.sv), a clock cycle at a time.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "offload/lockstep/parser_device.hpp"
#include "wire/frame.hpp"

class Vmp_builder;

namespace mprdma::offload {

class BuilderDevice {
 public:
  // What is given in a cycle, if it is.
  struct Inputs {
    const wire::FrameAddress* address = nullptr;
    const wire::Packet* packet = nullptr;
    const std::array<uint8_t, kBeatBytes>* payload = nullptr;
  };
  struct Cycle {
    bool took_packet = false;
    bool took_payload = false;
    std::optional<FrameBeat> beat;
  };

  // As of VerilatedModule.
  BuilderDevice(int seed, uint32_t mutant);
  ~BuilderDevice();
  BuilderDevice(const BuilderDevice&) = delete;
  BuilderDevice& operator=(const BuilderDevice&) = delete;

  Cycle step(const Inputs& inputs);
  // A cycle in reset, in which they are given, too.
  Cycle reset(const Inputs& inputs);
  void record(const std::string& path);

 private:
  std::unique_ptr<VerilatedModule<Vmp_builder>> module_;
};

}  // namespace mprdma::offload
