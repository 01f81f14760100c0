// The parameters that are choices, and their names in configurations, scenarios and results: one
// word for each value of an enumeration, in its order. Congestion controls and path policies have
// lists of their own (cc/algorithms.hpp, path_policies.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "cc/algorithms.hpp"
#include "transport/path/path_policies.hpp"

namespace mprdma::transport {

using std::literals::operator""sv;

using Words = std::initializer_list<std::string_view>;

// The transport protocol of a reliable connection (design 3).
enum class Protocol : uint8_t {
  kMp,    // streams with selective acknowledgement; the extended opcodes
  kRoce,  // RoCEv2 by the standard: go-back-N, one PSN space, one path
  kIrn,   // streams with selective acknowledgement; the standard's opcodes, one path
};
inline constexpr Words kProtocolWords = {"mp"sv, "roce"sv, "irn"sv};

// The rate controller of a connection.
using Congestion = cc::RateControl;
inline constexpr Words kCongestionWords = cc::RateControls::kNames;

// When WRITE and READ data reaches memory (design 1, docs/algorithms.md).
enum class PlacementPolicy : uint8_t {
  kStandard,  // in order, unless the memory was registered with relaxed ordering
  kRelaxed,   // everything on arrival: the paper
  kOrdered,   // everything in order
};
inline constexpr Words kPlacementWords = {"standard"sv, "relaxed"sv, "ordered"sv};

// How a synchronise operation is kept behind what was posted before it, towards a receiver that
// does not place in order (paper 3.5).
enum class SyncPolicy : uint8_t {
  kOptimistic,   // leaves after a short delay; the receiver refuses an operation that is too early
  kStopAndWait,  // leaves when everything before it is complete
};
inline constexpr Words kSyncPolicyWords = {"optimistic"sv, "stop-and-wait"sv};

// When a connection restarts with the initial window on random paths (paper 3.5).
enum class RestartRule : uint8_t {
  kNever,
  kIdle,         // nothing was outstanding for 3 RTT: the paper
  kUncongested,  // idle, and there was no sign of congestion for 30 RTT [deviation]
};
inline constexpr Words kRestartWords = {"never"sv, "idle"sv, "uncongested"sv};

// Which loss detector a stream has: X(enumerator, class, name), the classes of transport/stream. To
// add one: its line here, its header in transport/stream/loss_detectors.hpp.
#define MPRDMA_RECOVERIES(X)        \
  X(kMp, MpRecovery, "mp")          \
  X(kPaper, PaperRecovery, "paper") \
  X(kGap, GapRecovery, "gap")       \
  X(kIrn, IrnRecovery, "irn")

#define MPRDMA_RECOVERY_ENUMERATOR_(enumerator, type, name) enumerator,
#define MPRDMA_RECOVERY_NAME_(enumerator, type, name) name ""sv,
enum class Recovery : uint8_t { MPRDMA_RECOVERIES(MPRDMA_RECOVERY_ENUMERATOR_) };
inline constexpr Words kRecoveryWords = {MPRDMA_RECOVERIES(MPRDMA_RECOVERY_NAME_)};
#undef MPRDMA_RECOVERY_ENUMERATOR_
#undef MPRDMA_RECOVERY_NAME_

// The words of an enumeration, found by its type from a row of the list of parameters.
template <class Choice>
inline constexpr Words kWordsOf = {};
template <>
inline constexpr Words kWordsOf<Protocol> = kProtocolWords;
template <>
inline constexpr Words kWordsOf<Congestion> = kCongestionWords;
template <>
inline constexpr Words kWordsOf<PlacementPolicy> = kPlacementWords;
template <>
inline constexpr Words kWordsOf<SyncPolicy> = kSyncPolicyWords;
template <>
inline constexpr Words kWordsOf<RestartRule> = kRestartWords;
template <>
inline constexpr Words kWordsOf<Recovery> = kRecoveryWords;
template <>
inline constexpr Words kWordsOf<cc::WindowControl> = cc::WindowControls::kNames;
template <>
inline constexpr Words kWordsOf<PathPolicy> = PathPolicies::kNames;

template <class Choice>
constexpr std::string_view word_of(const Words& words, Choice choice) {
  return words.begin()[static_cast<size_t>(choice)];
}
template <class Choice>
constexpr std::string_view word_of(Choice choice) {
  return word_of(kWordsOf<Choice>, choice);
}

// Finds the value of a word. False: the enumeration has no such word.
template <class Choice>
constexpr bool parse_word(std::string_view text, Choice* out) {
  const Words words = kWordsOf<Choice>;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words.begin()[i] != text) continue;
    *out = static_cast<Choice>(i);
    return true;
  }
  return false;
}

}  // namespace mprdma::transport
