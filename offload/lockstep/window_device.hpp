// The verilated congestion window (offload/rtl/mp_window.sv), a clock cycle at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

class Vmp_window;

namespace mprdma::offload {

template <class Top>
class VerilatedModule;

// Packets in Q16.16, and in Q8.16.
struct WindowState {
  uint32_t window = 0;
  uint32_t owed = 0;

  bool operator==(const WindowState&) const = default;
  [[nodiscard]] std::string text() const;
};

// What an event tells; see mp_window_step.sv.
struct WindowEvent {
  uint32_t cost = 0;  // of its losses, Q8.16
  uint32_t used = 0;  // packets; what the window has room for beyond them is unused
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

  [[nodiscard]] std::string text() const;
};

class WindowDevice {
 public:
  // As of VerilatedModule.
  WindowDevice(int seed, uint32_t mutant);
  ~WindowDevice();
  WindowDevice(const WindowDevice&) = delete;
  WindowDevice& operator=(const WindowDevice&) = delete;

  // A cycle, in which the request is given, if there is one. The answer of an earlier one.
  std::optional<WindowState> step(const WindowRequest* request);
  // A cycle in reset, in which it is given, too.
  void reset(const WindowRequest& request);
  void record(const std::string& path);

 private:
  std::unique_ptr<VerilatedModule<Vmp_window>> module_;
};

}  // namespace mprdma::offload
