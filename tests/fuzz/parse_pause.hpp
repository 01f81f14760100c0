// The property that every input has to satisfy, shared by the fuzzer and its smoke test: a frame
// ends in a drop reason, or in a pause that survives another trip.
#pragma once

#include <array>
#include <span>

#include "base/check.hpp"
#include "wire/pause_frame.hpp"
#include "wire/print.hpp"

namespace mprdma::test {

inline wire::PauseDrop check_parse_pause(std::span<const unsigned char> bytes) {
  wire::PauseFrame pause;
  const wire::PauseDrop reason = wire::PauseFrame::parse(bytes, pause);
  if (reason != wire::PauseDrop::kNone) return reason;
  CHECK(wire::PauseFrame::is_on(bytes.data(), bytes.size()));
  std::array<char, wire::kTextBytes> text;
  CHECK(!to_string(pause, text).empty());
  std::array<unsigned char, wire::kMinFrameBytes> again;
  CHECK(pause.store({}, again.data()) == again.size());
  wire::PauseFrame second;
  CHECK(wire::PauseFrame::parse(again, second) == wire::PauseDrop::kNone);
  CHECK(second == pause);
  return reason;
}

}  // namespace mprdma::test
