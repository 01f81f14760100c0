// Contents that a script names by a letter: `A` is a sequence of bytes, `A+256` the same from its
// byte 256 on, `zero` is nothing but zeros. No letter's bytes repeat within a few packets.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/conformance/runner/script.hpp"

namespace mprdma::conformance {

struct Pattern {
  char letter = 0;  // 0: zeros
  uint64_t offset = 0;

  [[nodiscard]] uint8_t at(uint64_t i) const {
    const uint64_t n = offset + i;
    return letter == 0 ? 0 : static_cast<uint8_t>(letter * 31u + n * 7 + n / 256 * 13);
  }
  [[nodiscard]] std::vector<uint8_t> bytes(uint64_t length) const {
    std::vector<uint8_t> all(length);
    for (uint64_t i = 0; i < length; ++i) all[i] = at(i);
    return all;
  }
};

inline Pattern pattern_of(const Step& step, std::string_view text) {
  if (text == "zero") return {};
  const bool letter = !text.empty() && text[0] >= 'A' && text[0] <= 'Z';
  if (letter && text.size() == 1) return {.letter = text[0]};
  if (letter && text[1] == '+') {
    if (const auto offset = parse_number(text.substr(2))) {
      return {.letter = text[0], .offset = *offset};
    }
  }
  step.fail("expected contents (zero, A, A+256), got '" + std::string(text) + "'");
}

// "" if they are the same, else where they begin to differ.
inline std::string difference(const Pattern& expected, const uint8_t* got, uint64_t length) {
  for (uint64_t i = 0; i < length; ++i) {
    if (got[i] == expected.at(i)) continue;
    return "byte " + std::to_string(i) + " is " + std::to_string(got[i]) + " instead of " +
           std::to_string(expected.at(i));
  }
  return "";
}

}  // namespace mprdma::conformance
