// The loss detectors of a stream: they decide which packets are lost, which may be retransmitted,
// and how many are in flight. A detector is a class in a file of its own (docs/extending.md walks
// through one), pure, with a name and the members of the concept below; SelectiveRepeat has
// defaults for all but the name.
//
// A detector reads the scoreboard and reports verdicts; the sender enters them in the scoreboard
// and lets the congestion control know. A tag dispatches, nothing is virtual, nothing allocates.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

#include "base/alternatives.hpp"
#include "transport/stream/loss_detector.hpp"
#include "transport/stream/recovery_gap.hpp"
#include "transport/stream/recovery_irn.hpp"
#include "transport/stream/recovery_mp.hpp"
#include "transport/stream/recovery_paper.hpp"

namespace mprdma::transport {

// A new detector needs its header above and its line in MPRDMA_RECOVERIES
// (transport/core/param_words.hpp).
#define MPRDMA_DETECTOR_(enumerator, type, name) , type
using LossDetectors = Alternatives<void MPRDMA_RECOVERIES(MPRDMA_DETECTOR_)>;
#undef MPRDMA_DETECTOR_

#define MPRDMA_CHECK_DETECTOR_(enumerator, type, name) \
  static_assert(LossDetector<type> && type::kName == name);
MPRDMA_RECOVERIES(MPRDMA_CHECK_DETECTOR_)
#undef MPRDMA_CHECK_DETECTOR_

// The detector of one stream.
class LossRecovery {
 public:
  LossRecovery(Recovery which, const Params& params)
      : detector_(LossDetectors::make(which, params)),
        exact_(std::visit([](const auto& d) { return d.kExact; }, detector_)),
        copies_wait_(std::visit([](const auto& d) { return d.kCopiesWait; }, detector_)) {}

  // ---- Members of the concept (loss_detector.hpp)
  void reset(Psn first) {
    std::visit([=](auto& d) { d.reset(first); }, detector_);
  }
  void on_received() {
    std::visit([](auto& d) { d.on_received(); }, detector_);
  }
  void on_advance(const Scoreboard& board, uint32_t count) {
    std::visit([&](auto& d) { d.on_advance(board, count); }, detector_);
  }
  template <class Report>
  void on_nack(const Scoreboard& board, const Nack& nack, Report& report) {
    std::visit([&](auto& d) { d.on_nack(board, nack, report); }, detector_);
  }
  template <class Report>
  void on_hole(const Scoreboard& board, Report& report) {
    std::visit(
        [&](auto& d) {
          if constexpr (requires { d.on_hole(board, report); }) d.on_hole(board, report);
        },
        detector_);
  }
  template <class Report>
  void on_ack(const Scoreboard& board, Report& report) {
    std::visit([&](auto& d) { d.on_ack(board, report); }, detector_);
  }
  void on_begin(Psn una) {
    std::visit([=](auto& d) { d.on_begin(una); }, detector_);
  }
  void on_sent(Time now, Psn psn, Duration srtt) {
    std::visit([=](auto& d) { d.on_sent(now, psn, srtt); }, detector_);
  }
  void on_copy(Time now, Psn psn, Duration srtt) {
    std::visit([=](auto& d) { d.on_copy(now, psn, srtt); }, detector_);
  }
  bool on_delivery(const Scoreboard& board, const Delivery& delivery, const LossClock& clock) {
    return std::visit([&](auto& d) { return d.on_delivery(board, delivery, clock); }, detector_);
  }
  template <class Report>
  void find_late(const Scoreboard& board, const LossClock& clock, Report& report) {
    std::visit([&](auto& d) { d.find_late(board, clock, report); }, detector_);
  }
  [[nodiscard]] bool has_copies() const {
    return std::visit([](const auto& d) { return d.has_copies(); }, detector_);
  }
  [[nodiscard]] Time deadline() const {
    return std::visit([](const auto& d) { return d.deadline(); }, detector_);
  }
  template <class Report>
  void on_timeout(const Scoreboard& board, Report& report) {
    std::visit([&](auto& d) { d.on_timeout(board, report); }, detector_);
  }
  void on_restart() {
    std::visit([](auto& d) { d.on_restart(); }, detector_);
  }
  [[nodiscard]] bool exact() const { return exact_; }
  [[nodiscard]] bool copies_wait() const { return copies_wait_; }
  [[nodiscard]] uint32_t in_flight(const Scoreboard& board) const {
    return std::visit([&](const auto& d) { return d.in_flight(board); }, detector_);
  }
  [[nodiscard]] std::optional<Psn> next(const Scoreboard& board) const {
    return std::visit([&](const auto& d) { return d.next(board); }, detector_);
  }
  std::optional<LossCause> on_retransmit(Psn psn) {
    return std::visit([=](auto& d) { return d.on_retransmit(psn); }, detector_);
  }
  [[nodiscard]] std::optional<Psn> early(const Scoreboard& board) const {
    return std::visit([&](const auto& d) { return d.early(board); }, detector_);
  }
  void on_early() {
    std::visit([](auto& d) { d.on_early(); }, detector_);
  }
  [[nodiscard]] uint32_t burst() const {
    return std::visit([](const auto& d) { return d.burst(); }, detector_);
  }
  [[nodiscard]] bool exceeds_window() const {
    return std::visit([](const auto& d) { return d.exceeds_window(); }, detector_);
  }

  // The detector by its type; nullptr: it is another one.
  [[nodiscard]] MpRecovery* mp() { return std::get_if<MpRecovery>(&detector_); }
  [[nodiscard]] const MpRecovery* mp() const { return std::get_if<MpRecovery>(&detector_); }

 private:
  LossDetectors::Any detector_;
  bool exact_;
  bool copies_wait_;
};

}  // namespace mprdma::transport
