#include "offload/lockstep/window_device.hpp"

#include <Vmp_window.h>
#include <fmt/format.h>

#include "offload/lockstep/verilated_module.hpp"
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

std::string WindowState::text() const {
  return fmt::format("window {:08x} owed {:06x}", window, owed);
}

std::string WindowRequest::text() const {
  return fmt::format(
      "{} initial {:08x} max {:08x} cost {:06x} used {} slow {} marked {} grows {} unused {} "
      "timeout {} "
      "gives_back {} recovers {}",
      state.text(), initial, max, event.cost, event.used, event.slow, event.marked, event.grows,
      event.unused, event.timeout, event.gives_back, event.recovers);
}

WindowDevice::WindowDevice(int seed, uint32_t mutant)
    : module_(std::make_unique<VerilatedModule<Vmp_window>>(seed, mutant)) {}

WindowDevice::~WindowDevice() = default;

void WindowDevice::record(const std::string& path) {
  module_->record(path);
}

std::optional<WindowState> WindowDevice::step(const WindowRequest* request) {
  VerilatedModule<Vmp_window>& top = *module_;
  top->in_valid = request != nullptr ? 1 : 0;
  if (request != nullptr) {
    top->in_window = request->state.window;
    top->in_owed = request->state.owed;
    top->in_cost = request->event.cost;
    top->in_used = static_cast<uint16_t>(request->event.used);
    top->in_event = bits(request->event);
    top->in_initial = request->initial;
    top->in_max = request->max;
  }
  top.begin();
  std::optional<WindowState> out;
  if (top->out_valid != 0) out = WindowState{top->out_window, top->out_owed};
  top.end();
  return out;
}

void WindowDevice::reset(const WindowRequest& request) {
  (*module_)->reset = 1;
  step(&request);
  (*module_)->reset = 0;
}

}  // namespace mprdma::offload
