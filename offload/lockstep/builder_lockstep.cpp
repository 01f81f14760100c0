// Drives the verilated builder and wire::encode_frame() with the same packets: the frames are the
// same byte by byte, or the program says where they differ and ends with 1.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <set>
#include <vector>

#include "base/prng.hpp"
#include "offload/lockstep/builder_device.hpp"
#include "offload/lockstep/frame_traffic.hpp"
#include "offload/lockstep/lockstep.hpp"
#include "wire/print.hpp"

namespace mprdma::offload {
namespace {

// Cycles from the one in which a packet is given to its first beat, where nothing waits.
constexpr uint64_t kFirstBeatAfter = 8;

using Beat = std::array<uint8_t, kBeatBytes>;

struct Built {
  wire::Packet packet;
  std::vector<uint8_t> frame;
};

class Lockstep {
 public:
  Lockstep(const LockstepOptions& options, bool steady)
      : options_(options),
        steady_(steady),
        device_(options.device_seed(), options.mutant),
        traffic_(options.seed),
        pauses_(options.seed + 1) {
    if (!options.waveform.empty()) device_.record(options.waveform);
  }

  // False: they differ.
  bool run() {
    next_packet();
    while (done_ < options_.events) {
      if (!cycle()) return false;
    }
    // A beat a cycle, as long as nothing pauses.
    if (steady_ && cycles_ != beats_ + kFirstBeatAfter) {
      fmt::print("{}: {} beats took {} cycles\n", options_.program, beats_, cycles_);
      return false;
    }
    return true;
  }

  [[nodiscard]] uint64_t done() const { return done_; }
  [[nodiscard]] bool shows_everything() const {
    return opcodes_.size() == kOpcodes && own_beats_ > 0 && header_beats_ > 0 && single_ > 0 &&
           (steady_ || resets_ > 0);
  }
  void print() const {
    fmt::print("{}: {} events, no difference; {} beats in {} cycles\n", options_.program, done_,
               beats_, cycles_);
    fmt::print("  opcodes {}, frames of one beat {}, of headers longer than a beat {}, with the ",
               opcodes_.size(), single_, header_beats_);
    fmt::print("end of the ICRC in a beat of its own {}, resets {}\n", own_beats_, resets_);
  }

 private:
  // Those that opcode_info() knows.
  static constexpr size_t kOpcodes = [] {
    size_t count = 0;
    for (const wire::OpcodeInfo& info : wire::internal::kOpcodeTable) count += info.valid ? 1 : 0;
    return count;
  }();

  void next_packet() {
    packet_ = traffic_.packet();
    address_ = traffic_.address(packet_);
    payload_ = traffic_.payload(packet_.payload_len);
  }
  bool pauses() { return !steady_ && pauses_.chance(1, 8); }
  bool cycle() {
    BuilderDevice::Inputs inputs;
    if (begun_ < options_.events && !pauses()) inputs = {.address = &address_, .packet = &packet_};
    if (!waiting_payload_.empty() && !pauses()) inputs.payload = &waiting_payload_.front();
    ++cycles_;
    if (!steady_ && pauses_.chance(1, 20'000)) {
      const BuilderDevice::Cycle out = device_.reset(inputs);
      // What is under way is gone, in the middle of a frame, too.
      if (out.took_packet || out.took_payload) return differs("takes in a reset");
      resets_ += expected_.empty() ? 0 : 1;
      done_ += expected_.size();
      expected_.clear();
      waiting_payload_.clear();
      at_ = 0;
      return true;
    }
    const BuilderDevice::Cycle out = device_.step(inputs);
    if (out.beat && !take(*out.beat)) return false;
    if (out.took_payload) waiting_payload_.pop_front();
    if (out.took_packet) begin();
    return true;
  }
  void begin() {
    expected_.push_back({packet_, frame_of(address_, packet_, payload_)});
    for (size_t at = 0; at < payload_.size(); at += kBeatBytes) {
      Beat& beat = waiting_payload_.emplace_back();
      // What lies behind the payload's end means nothing.
      beat.fill(static_cast<uint8_t>(pauses_.below(256)));
      const size_t bytes = std::min<size_t>(payload_.size() - at, kBeatBytes);
      std::copy_n(payload_.begin() + static_cast<ptrdiff_t>(at), bytes, beat.begin());
    }
    opcodes_.insert(packet_.opcode);
    ++begun_;
    next_packet();
  }
  bool take(const FrameBeat& beat) {
    ++beats_;
    if (expected_.empty()) return differs("a beat that nothing asks for");
    const std::vector<uint8_t>& frame = expected_.front().frame;
    const size_t left = frame.size() - at_;
    const size_t bytes = std::min<size_t>(left, kBeatBytes);
    if (beat.last != (left <= kBeatBytes) || beat.bytes != bytes) {
      return differs(fmt::format("last {} with {} bytes", beat.last, beat.bytes));
    }
    Beat wanted{};
    std::copy_n(frame.begin() + static_cast<ptrdiff_t>(at_), bytes, wanted.begin());
    for (size_t i = 0; i < kBeatBytes; ++i) {
      if (beat.data[i] != wanted[i]) {
        return differs(fmt::format("byte {}: software {:02x} hardware {:02x}", at_ + i, wanted[i],
                                   beat.data[i]));
      }
    }
    at_ += bytes;
    if (!beat.last) return true;
    single_ += frame.size() <= kBeatBytes ? 1 : 0;
    own_beats_ += bytes == 2 ? 1 : 0;
    const uint32_t behind_headers =
        expected_.front().packet.payload_len + wire::kMaxFrameTrailerBytes;
    header_beats_ += frame.size() > behind_headers + kBeatBytes ? 1 : 0;
    expected_.pop_front();
    at_ = 0;
    ++done_;
    return true;
  }
  bool differs(const std::string& how) const {
    char line[1024];
    fmt::print("{}: event {} differs: {}\n", options_.program, done_, how);
    if (!expected_.empty()) {
      fmt::print("  packet {}, frame of {} bytes\n",
                 wire::to_string(expected_.front().packet, line), expected_.front().frame.size());
    }
    return false;
  }

  LockstepOptions options_;
  bool steady_;
  BuilderDevice device_;
  FrameTraffic traffic_;
  Prng pauses_;
  wire::Packet packet_;  // the next one
  wire::FrameAddress address_;
  std::vector<uint8_t> payload_;
  std::deque<Built> expected_;
  std::deque<Beat> waiting_payload_;
  size_t at_ = 0;  // bytes of the first frame that have come
  uint64_t begun_ = 0;
  uint64_t done_ = 0;
  uint64_t beats_ = 0;
  uint64_t cycles_ = 0;
  std::set<wire::Opcode> opcodes_;
  uint64_t single_ = 0;
  uint64_t own_beats_ = 0;
  uint64_t header_beats_ = 0;
  uint64_t resets_ = 0;  // with frames under way
};

}  // namespace
}  // namespace mprdma::offload

int main(int argc, char** argv) {
  mprdma::offload::LockstepOptions options;
  options.program = std::filesystem::path(argv[0]).filename();
  CLI::App app("Compares the RTL's builder of frames with the software's, byte by byte");
  options.add_to(app);
  bool steady = false;
  app.add_flag("--steady", steady, "no pause and no reset; the cycles are counted");
  CLI11_PARSE(app, argc, argv);
  mprdma::offload::Lockstep lockstep(options, steady);
  return run_to_the_end(lockstep, options, steady ? " --steady" : "");
}
