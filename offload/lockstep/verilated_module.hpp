// A verilated module and its clock, reset and waveform, for the devices beside it. `Top` is the
// class that Verilator writes; it has the inputs clock, reset and in_valid.
#pragma once

#include <verilated.h>
#include <verilated_vcd_c.h>

#include <cstdint>
#include <memory>
#include <string>

#include "base/check.hpp"

namespace mprdma::offload {

template <class Top>
class VerilatedModule {
 public:
  // `seed`: of what registers and memories hold before the reset. `mutant`: which one, where the
  // RTL's mutants are built in (tests/offload); 0 is the RTL as it is.
  VerilatedModule(int seed, uint32_t mutant) {
    context_.randSeed(seed);
    context_.randReset(2);
    top_ = std::make_unique<Top>(&context_);
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
    begin();
    end();
    top_->reset = 0;
  }
  ~VerilatedModule() {
    if (waveform_) waveform_->close();
    top_->final();
  }
  VerilatedModule(const VerilatedModule&) = delete;
  VerilatedModule& operator=(const VerilatedModule&) = delete;

  Top* operator->() {
    return top_.get();
  }

  // A cycle: inputs are set before begin(), outputs read between the two.
  void begin() {
    ++cycles_;
    settle(0);
  }
  void end() {
    settle(1);
  }

  // All signals to this file, as VCD, from here on.
  void record(const std::string& path) {
    context_.traceEverOn(true);
    waveform_ = std::make_unique<VerilatedVcdC>();
    constexpr int kLevels = 99;
    top_->trace(waveform_.get(), kLevels);
    waveform_->open(path.c_str());
  }

 private:
  void settle(uint8_t clock) {
    top_->clock = clock;
    top_->eval();
    if (waveform_) waveform_->dump(2 * cycles_ + clock);
  }

  VerilatedContext context_;
  std::unique_ptr<Top> top_;
  std::unique_ptr<VerilatedVcdC> waveform_;
  uint64_t cycles_ = 0;
};

}  // namespace mprdma::offload
