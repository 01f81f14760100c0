// The verilated congestion window (offload/rtl/mp_window.sv), a clock cycle at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

class Vmp_window;
class VerilatedContext;
class VerilatedVcdC;

namespace mprdma::offload {

// Packets in Q16.16, and in Q8.16.
struct WindowState {
  uint32_t window = 0;
  uint32_t owed = 0;

  bool operator==(const WindowState&) const = default;
};

// What an event tells; see mp_window_step.sv.
struct WindowEvent {
  uint32_t cost = 0;  // of its losses, Q8.16
  bool slow = false;
  bool marked = false;
  bool grows = false;
  bool unused = false;
  bool timeout = false;
  bool gives_back = false;
  bool recovers = false;
};

struct WindowRequest {
  WindowState state;
  WindowEvent event;
  uint32_t initial = 0;  // Q16.16
  uint32_t max = 0;
};

class WindowDevice {
 public:
  // `seed`, `mutant`: as of ReceiverDevice.
  WindowDevice(int seed, uint32_t mutant);
  ~WindowDevice();
  WindowDevice(const WindowDevice&) = delete;
  WindowDevice& operator=(const WindowDevice&) = delete;

  // A cycle, in which the request is given, if there is one. The answer of an earlier one.
  std::optional<WindowState> step(const WindowRequest* request);
  // All signals, as VCD, from here on.
  void record(const std::string& path);
  [[nodiscard]] uint64_t cycles() const { return cycles_; }

 private:
  void settle(bool clock);

  std::unique_ptr<VerilatedContext> context_;
  std::unique_ptr<Vmp_window> top_;
  std::unique_ptr<VerilatedVcdC> waveform_;
  uint64_t cycles_ = 0;
};

}  // namespace mprdma::offload
