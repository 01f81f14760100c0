// How GoogleTest prints our value types in a failure message. Include it in any test that compares
// them; without it they come out as bytes.
#pragma once

#include <ostream>

#include "base/fixed_point.hpp"
#include "base/ipv4.hpp"
#include "base/psn.hpp"
#include "base/units.hpp"

namespace mprdma {

inline void PrintTo(Psn psn, std::ostream* out) {
  *out << "psn " << psn.value();
}

inline void PrintTo(Ipv4 ipv4, std::ostream* out) {
  const uint32_t ip = ipv4.value();
  *out << (ip >> 24) << '.' << (ip >> 16 & 255) << '.' << (ip >> 8 & 255) << '.' << (ip & 255);
}

inline void PrintTo(Duration d, std::ostream* out) {
  *out << d.count_ns() << " ns";
}

inline void PrintTo(Time t, std::ostream* out) {
  if (t.is_never()) {
    *out << "never";
  } else {
    *out << "t=" << t.ns() << " ns";
  }
}

inline void PrintTo(Fixed16 x, std::ostream* out) {
  *out << x.raw() << "/65536 (" << x.floor() << " and a part)";
}

}  // namespace mprdma
