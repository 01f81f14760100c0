// WindowBitmap: one bit for each position of a sliding window of at most kBits positions.
//
// Positions are serial: they are taken modulo kBits, so a PSN indexes the map directly (2^24 is a
// multiple of kBits) and nothing moves when the window does. The owner keeps the window's edges
// and clears what leaves it; a bit that is not cleared comes back kBits positions later.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "base/check.hpp"

namespace mprdma {

template <unsigned kBits>
class WindowBitmap {
  static_assert(std::has_single_bit(kBits) && kBits >= 8 && kBits <= 4096);

 public:
  static constexpr uint32_t kSize = kBits;

  constexpr bool test(uint32_t pos) const { return (words_[word_of(pos)] & mask_of(pos)) != 0; }
  constexpr void set(uint32_t pos) { words_[word_of(pos)] |= mask_of(pos); }
  constexpr void clear(uint32_t pos) { words_[word_of(pos)] &= ~mask_of(pos); }
  constexpr void reset() { words_ = {}; }

  // Clears [pos, pos + len), len <= kBits.
  constexpr void clear_range(uint32_t pos, uint32_t len) {
    DCHECK(len <= kBits);
    while (len > 0) {
      const uint32_t run = run_in_word(pos, len);
      words_[word_of(pos)] &= ~(low_mask(run) << bit_of(pos));
      pos += run;
      len -= run;
    }
  }

  // Sets what `other` has set.
  constexpr void add(const WindowBitmap& other) {
    for (uint32_t i = 0; i < kWords; ++i) words_[i] |= other.words_[i];
  }

  constexpr uint32_t count() const {
    uint32_t total = 0;
    for (const uint64_t word : words_) total += static_cast<uint32_t>(std::popcount(word));
    return total;
  }

  constexpr bool any() const {
    for (const uint64_t word : words_) {
      if (word != 0) return true;
    }
    return false;
  }

  // Distance from pos to the first set (clear) position of [pos, pos + len), or len if there is
  // none; len <= kBits.
  constexpr uint32_t next_set(uint32_t pos, uint32_t len) const { return scan(pos, len, 0); }
  constexpr uint32_t next_clear(uint32_t pos, uint32_t len) const {
    return scan(pos, len, ~uint64_t{0});
  }

  constexpr bool operator==(const WindowBitmap&) const = default;

 private:
  static constexpr uint32_t kWordBits = kBits < 64 ? kBits : 64;
  static constexpr uint32_t kWords = kBits / kWordBits;

  static constexpr uint32_t word_of(uint32_t pos) { return (pos % kBits) / kWordBits; }
  static constexpr uint32_t bit_of(uint32_t pos) { return pos % kWordBits; }
  static constexpr uint64_t mask_of(uint32_t pos) { return uint64_t{1} << bit_of(pos); }
  // The lowest n bits.
  static constexpr uint64_t low_mask(uint32_t n) {
    return n < 64 ? (uint64_t{1} << n) - 1 : ~uint64_t{0};
  }
  // How many of the len positions from pos lie in pos's word.
  static constexpr uint32_t run_in_word(uint32_t pos, uint32_t len) {
    const uint32_t left = kWordBits - bit_of(pos);
    return len < left ? len : left;
  }

  // The flip turns the search for a clear bit into one for a set bit.
  constexpr uint32_t scan(uint32_t pos, uint32_t len, uint64_t flip) const {
    DCHECK(len <= kBits);
    uint32_t done = 0;
    while (done < len) {
      const uint32_t at = pos + done;
      const uint32_t run = run_in_word(at, len - done);
      const uint64_t bits = ((words_[word_of(at)] ^ flip) >> bit_of(at)) & low_mask(run);
      if (bits != 0) return done + static_cast<uint32_t>(std::countr_zero(bits));
      done += run;
    }
    return len;
  }

  std::array<uint64_t, kWords> words_{};
};

}  // namespace mprdma
