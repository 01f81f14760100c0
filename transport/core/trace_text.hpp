// A trace event as one JSON object on a line, for jq and for people.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "transport/core/trace.hpp"
#include "wire/print.hpp"

namespace mprdma::transport {

// Longest name of a host, in bytes.
inline constexpr size_t kTraceHostMax = 64;

// Enough for every event.
inline constexpr size_t kTraceTextBytes = wire::kTextBytes + 320 + kTraceHostMax;

// Writes `{"ns":..,"host":"..","qpn":..,"event":"..",..}` and a newline to `out`; what does not fit
// is cut off. `host` is left out if it is empty, and holds nothing that JSON would escape.
std::string_view trace_text(const TraceEvent& event, std::string_view host, std::span<char> out);

}  // namespace mprdma::transport
