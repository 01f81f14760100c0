// The verilated parser (offload/rtl/mp_parser.sv), a clock cycle at a time.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "wire/frame.hpp"

class Vmp_parser;

namespace mprdma::offload {

template <class Top>
class VerilatedModule;

inline constexpr uint32_t kBeatBytes = 64;

struct FrameBeat {
  std::array<uint8_t, kBeatBytes> data{};
  bool last = false;
  uint32_t bytes = 0;  // of the last one
};

struct ParserRequest {
  std::vector<uint8_t> frame;

  [[nodiscard]] std::string text() const;
};

struct ParserReply {
  wire::DropReason reason = wire::DropReason::kNone;
  wire::DecodedFrame frame;
  bool starts = false;  // a message
  bool ends = false;

  // Of a frame that is dropped, only the reason counts.
  bool operator==(const ParserReply& other) const;
  [[nodiscard]] std::string text() const;
};

class ParserDevice {
 public:
  // As of VerilatedModule.
  ParserDevice(int seed, uint32_t mutant);
  ~ParserDevice();
  ParserDevice(const ParserDevice&) = delete;
  ParserDevice& operator=(const ParserDevice&) = delete;

  // A cycle, in which the beat is given, if there is one. The answer to an earlier frame.
  std::optional<ParserReply> step(const FrameBeat* beat);
  // A cycle in reset, in which it is given, too.
  void reset(const FrameBeat& beat);
  void record(const std::string& path);

 private:
  std::unique_ptr<VerilatedModule<Vmp_parser>> module_;
};

}  // namespace mprdma::offload
