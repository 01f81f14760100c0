// What the choices of transport::Params are called, in scenarios and in results: one word for each
// value of the enumeration, in its order.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string_view>

#include "cc/window.hpp"
#include "transport/path_policies.hpp"

namespace mprdma::switchsim {

using Words = std::initializer_list<std::string_view>;

inline const Words kProtocolWords = {"mp", "roce"};
inline const Words kCongestionWords = {"none", "dcqcn-paper", "dcqcn-tuned"};
inline const Words kWindowControlWords = cc::WindowControls::kNames;
inline const Words kPathPolicyWords = transport::PathPolicies::kNames;
inline const Words kRestartWords = {"never", "idle", "no-backlog"};
inline const Words kPlacementWords = {"standard", "relaxed", "ordered"};
inline const Words kSyncPolicyWords = {"optimistic", "stop-and-wait"};

template <class Choice>
std::string_view word_of(const Words& words, Choice choice) {
  return *(words.begin() + static_cast<size_t>(choice));
}

}  // namespace mprdma::switchsim
