#include "offload/lockstep/window_device.hpp"

#include <Vmp_window.h>
#include <verilated.h>
#include <verilated_vcd_c.h>

#include "base/check.hpp"
#ifdef MPRDMA_RTL_MUTANTS
#include <Vmp_window_mp_mutant.h>
#endif

namespace mprdma::offload {

namespace {

// As in_event of mp_window.sv.
uint8_t bits(const WindowEvent& event) {
  const bool facts[] = {event.slow,    event.marked,     event.grows,   event.unused,
                        event.timeout, event.gives_back, event.recovers};
  uint8_t out = 0;
  for (uint32_t i = 0; i < std::size(facts); ++i) {
    out = static_cast<uint8_t>(out | (facts[i] ? 1 : 0) << i);
  }
  return out;
}

}  // namespace

WindowDevice::WindowDevice(int seed, uint32_t mutant)
    : context_(std::make_unique<VerilatedContext>()) {
  context_->randSeed(seed);
  context_->randReset(2);
  top_ = std::make_unique<Vmp_window>(context_.get());
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
  step(nullptr);
  top_->reset = 0;
}

WindowDevice::~WindowDevice() {
  if (waveform_) waveform_->close();
  top_->final();
}

void WindowDevice::record(const std::string& path) {
  context_->traceEverOn(true);
  waveform_ = std::make_unique<VerilatedVcdC>();
  constexpr int kLevels = 99;
  top_->trace(waveform_.get(), kLevels);
  waveform_->open(path.c_str());
}

void WindowDevice::settle(bool clock) {
  top_->clock = clock ? 1 : 0;
  top_->eval();
  if (waveform_) waveform_->dump(2 * cycles_ + (clock ? 1 : 0));
}

std::optional<WindowState> WindowDevice::step(const WindowRequest* request) {
  ++cycles_;
  top_->in_valid = request != nullptr ? 1 : 0;
  if (request != nullptr) {
    top_->in_window = request->state.window;
    top_->in_owed = request->state.owed;
    top_->in_cost = request->event.cost;
    top_->in_event = bits(request->event);
    top_->in_initial = request->initial;
    top_->in_max = request->max;
  }
  settle(false);
  std::optional<WindowState> out;
  if (top_->out_valid != 0) out = WindowState{top_->out_window, top_->out_owed};
  settle(true);
  return out;
}

}  // namespace mprdma::offload
