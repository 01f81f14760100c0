// Drives the verilated parser and wire::decode_frame() with the same frames: after each one fields
// or the reason to drop it are the same, or the program says where they differ and ends with 1.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>

#include "base/prng.hpp"
#include "offload/lockstep/frame_traffic.hpp"
#include "offload/lockstep/lockstep.hpp"
#include "offload/lockstep/parser_device.hpp"

namespace mprdma::offload {
namespace {

// Cycles from the one in which the last beat is given to the answer.
constexpr uint64_t kAnswerAfter = 5;

ParserReply decoded(const ParserRequest& request) {
  ParserReply out;
  out.reason = wire::decode_frame(request.frame, out.frame, true);
  const wire::OpcodeInfo& info = out.frame.packet.info();
  out.starts = info.starts_message();
  out.ends = info.ends_message();
  return out;
}

class Lockstep {
 public:
  explicit Lockstep(const LockstepOptions& options)
      : options_(options),
        device_(options.device_seed(), options.mutant),
        traffic_(options.seed),
        pauses_(options.seed + 1),
        expected_(options.program, kAnswerAfter) {
    if (!options.waveform.empty()) device_.record(options.waveform);
  }

  // False: they differ.
  bool run() {
    next_frame();
    while (done() < options_.events) {
      const bool gives = begun_ < options_.events && !pauses_.chance(1, 12);
      if (!gives) {
        if (!expected_.check(device_.step(nullptr))) return false;
        continue;
      }
      const FrameBeat beat = next_beat();
      if (pauses_.chance(1, 20'000)) {
        device_.reset(beat);
        counts_.resets += expected_.reset().empty() ? 0 : 1;
        next_frame();
        continue;
      }
      if (!expected_.check(device_.step(&beat))) return false;
      ++beats_;
      if (!beat.last) continue;
      const ParserReply reply = decoded(request_);
      ++counts_.reasons[static_cast<size_t>(reply.reason)];
      expected_.expect(request_, reply);
      ++begun_;
      next_frame();
    }
    return true;
  }

  [[nodiscard]] uint64_t done() const { return expected_.done(); }
  // Every reason that a RoCEv2 frame may have.
  [[nodiscard]] bool shows_everything() const {
    const auto end = counts_.reasons.begin() + kReasons;
    return std::find(counts_.reasons.begin(), end, 0) == end && counts_.resets > 0;
  }
  void print() const {
    fmt::print("{}: {} events, no difference; {} beats in {} cycles\n", options_.program, done(),
               beats_, expected_.cycles());
    for (size_t i = 0; i < kReasons; ++i) {
      fmt::print("{}{} {}", i == 0 ? "  " : ", ",
                 wire::drop_reason_name(static_cast<wire::DropReason>(i)), counts_.reasons[i]);
    }
    fmt::print(", resets {}\n", counts_.resets);
  }

 private:
  // Those behind are of ARP.
  static constexpr size_t kReasons = static_cast<size_t>(wire::DropReason::kBadIcrc) + 1;

  void next_frame() {
    request_.frame = traffic_.frame();
    at_ = 0;
  }
  FrameBeat next_beat() {
    FrameBeat out;
    const size_t left = request_.frame.size() - at_;
    out.last = left <= kBeatBytes;
    out.bytes = static_cast<uint32_t>(std::min<size_t>(left, kBeatBytes));
    const auto from = request_.frame.begin() + static_cast<ptrdiff_t>(at_);
    // What lies behind the frame's end means nothing.
    out.data.fill(static_cast<uint8_t>(pauses_.below(256)));
    std::copy(from, from + static_cast<ptrdiff_t>(out.bytes), out.data.begin());
    at_ += out.bytes;
    return out;
  }

  struct Counts {
    std::array<uint64_t, static_cast<size_t>(wire::DropReason::kCount)> reasons{};
    uint64_t resets = 0;  // with frames under way
  };

  LockstepOptions options_;
  ParserDevice device_;
  FrameTraffic traffic_;
  Prng pauses_;
  Expectations<ParserRequest, ParserReply> expected_;
  ParserRequest request_;
  size_t at_ = 0;  // bytes of the frame that were given
  uint64_t begun_ = 0;
  uint64_t beats_ = 0;
  Counts counts_;
};

}  // namespace
}  // namespace mprdma::offload

int main(int argc, char** argv) {
  mprdma::offload::LockstepOptions options;
  options.program = std::filesystem::path(argv[0]).filename();
  CLI::App app("Compares the RTL's parser of frames with the software's, frame by frame");
  options.add_to(app);
  CLI11_PARSE(app, argc, argv);
  mprdma::offload::Lockstep lockstep(options);
  return run_to_the_end(lockstep, options, "");
}
