// Counters from one list: the struct, the printed names and the documentation cannot drift apart.
//
// Given MPRDMA_PATH_COUNTERS(X), a macro that expands to
//   X(path_packets_sent, "Data packets handed to the port.")
//   X(path_packets_retransmitted, "Data packets sent more than once.")
// the line
//   MPRDMA_DEFINE_COUNTERS(PathCounters, MPRDMA_PATH_COUNTERS);
//
// gives `struct PathCounters` with one uint64_t for each entry (owned and written by one thread),
// kCount, kNames, kDescriptions, for_each(f(name, value)), operator+= and operator==.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#define MPRDMA_COUNTER_MEMBER_(name, description) uint64_t name = 0;
#define MPRDMA_COUNTER_ONE_(name, description) +1
#define MPRDMA_COUNTER_NAME_(name, description) std::string_view{#name},
#define MPRDMA_COUNTER_DESCRIPTION_(name, description) std::string_view{description},
#define MPRDMA_COUNTER_VISIT_(name, description) visit(std::string_view{#name}, name);
#define MPRDMA_COUNTER_ADD_(name, description) name += other.name;

#define MPRDMA_DEFINE_COUNTERS(StructName, LIST)                                                 \
  struct StructName {                                                                            \
    LIST(MPRDMA_COUNTER_MEMBER_)                                                                 \
    static constexpr std::size_t kCount = 0 LIST(MPRDMA_COUNTER_ONE_);                           \
    static constexpr std::array<std::string_view, kCount> kNames = {LIST(MPRDMA_COUNTER_NAME_)}; \
    static constexpr std::array<std::string_view, kCount> kDescriptions = {                      \
        LIST(MPRDMA_COUNTER_DESCRIPTION_)};                                                      \
    template <class Visitor>                                                                     \
    constexpr void for_each(Visitor&& visit) const {                                             \
      LIST(MPRDMA_COUNTER_VISIT_)                                                                \
    }                                                                                            \
    constexpr StructName& operator+=(const StructName& other) {                                  \
      LIST(MPRDMA_COUNTER_ADD_)                                                                  \
      return *this;                                                                              \
    }                                                                                            \
    constexpr bool operator==(const StructName&) const = default;                                \
  }
