// WindowBitmap: one bit for each position of a sliding window. Its size, the most positions that
// the window may have, is a power of two and fixed when the map is made; up to 512 positions need
// no memory beside the object.
//
// Positions are serial: they are taken modulo the size, so a PSN indexes the map directly (2^24 is
// a multiple of the size) and nothing moves when the window does. The owner keeps the window's
// edges and clears what leaves it; a bit that is not cleared comes back one size of positions
// later.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/check.hpp"

namespace mprdma {

class WindowBitmap {
 public:
  static constexpr uint32_t kSizeMax = 4096;

  explicit WindowBitmap(uint32_t size) : mask_(size - 1) {
    CHECK(std::has_single_bit(size) && size <= kSizeMax);
    if (words() > kInline) wide_ = std::make_unique<uint64_t[]>(words());
  }
  WindowBitmap(const WindowBitmap& other) : WindowBitmap(other.size()) { copy(other); }
  WindowBitmap(WindowBitmap&&) = default;
  WindowBitmap& operator=(WindowBitmap&&) = default;
  // Of a map of the same size.
  WindowBitmap& operator=(const WindowBitmap& other) {
    CHECK(mask_ == other.mask_);
    copy(other);
    return *this;
  }
  ~WindowBitmap() = default;

  [[nodiscard]] uint32_t size() const { return mask_ + 1; }
  [[nodiscard]] bool test(uint32_t pos) const { return (word(pos) & bit(pos)) != 0; }
  void set(uint32_t pos) { word(pos) |= bit(pos); }
  void clear(uint32_t pos) { word(pos) &= ~bit(pos); }
  void reset() { std::fill_n(data(), words(), 0); }

  // Clears [pos, pos + len), len <= size().
  void clear_range(uint32_t pos, uint32_t len) {
    DCHECK(len <= size());
    while (len > 0) {
      const uint32_t run = run_in_word(pos, len);
      word(pos) &= ~(low_mask(run) << bit_of(pos));
      pos += run;
      len -= run;
    }
  }

  // Sets what `other`, of the same size, has set.
  void add(const WindowBitmap& other) {
    DCHECK(mask_ == other.mask_);
    for (uint32_t i = 0; i < words(); ++i) data()[i] |= other.data()[i];
  }

  [[nodiscard]] uint32_t count() const {
    uint32_t total = 0;
    for (uint32_t i = 0; i < words(); ++i) {
      total += static_cast<uint32_t>(std::popcount(data()[i]));
    }
    return total;
  }

  [[nodiscard]] bool any() const {
    return std::any_of(data(), data() + words(), [](uint64_t word) { return word != 0; });
  }

  // Distance from pos to the first set (clear) position of [pos, pos + len), or len if there is
  // none; len <= size().
  [[nodiscard]] uint32_t next_set(uint32_t pos, uint32_t len) const { return scan(pos, len, 0); }
  [[nodiscard]] uint32_t next_clear(uint32_t pos, uint32_t len) const {
    return scan(pos, len, ~uint64_t{0});
  }

  // The 64 positions from pos on, the first one in bit 0; a map of fewer repeats itself.
  [[nodiscard]] uint64_t next_64(uint32_t pos) const {
    const uint32_t width = std::min(kWordBits, size());
    const uint32_t low = bit_of(pos);
    uint64_t bits = word(pos) >> low;
    if (low > 0) bits |= word(pos + width - low) << (width - low);
    for (uint32_t have = width; have < kWordBits; have *= 2) {
      bits &= low_mask(have);
      bits |= bits << have;
    }
    return bits;
  }
  // The first `len` of these, len <= 64.
  [[nodiscard]] uint64_t next_bits(uint32_t pos, uint32_t len) const {
    return next_64(pos) & low_mask(len);
  }
  // Sets the position pos + i for each bit i.
  void set_bits(uint32_t pos, uint64_t bits) {
    for (; bits != 0; bits &= bits - 1) set(pos + static_cast<uint32_t>(std::countr_zero(bits)));
  }

 private:
  static constexpr uint32_t kWordBits = 64;
  static constexpr uint32_t kInline = 8;  // words

  // The lowest n bits.
  static constexpr uint64_t low_mask(uint32_t n) {
    return n < 64 ? (uint64_t{1} << n) - 1 : ~uint64_t{0};
  }
  // A map of less than 64 positions has one word, of which it uses the lowest bits.
  [[nodiscard]] uint32_t words() const { return mask_ / kWordBits + 1; }
  [[nodiscard]] const uint64_t* data() const { return wide_ ? wide_.get() : inline_.data(); }
  [[nodiscard]] uint64_t* data() { return wide_ ? wide_.get() : inline_.data(); }
  [[nodiscard]] const uint64_t& word(uint32_t pos) const {
    return data()[(pos & mask_) / kWordBits];
  }
  [[nodiscard]] uint64_t& word(uint32_t pos) { return data()[(pos & mask_) / kWordBits]; }
  [[nodiscard]] uint32_t bit_of(uint32_t pos) const { return pos & mask_ & (kWordBits - 1); }
  [[nodiscard]] uint64_t bit(uint32_t pos) const { return uint64_t{1} << bit_of(pos); }
  // How many of the len positions from pos lie in pos's word.
  [[nodiscard]] uint32_t run_in_word(uint32_t pos, uint32_t len) const {
    return std::min(len, std::min(kWordBits, size()) - bit_of(pos));
  }
  void copy(const WindowBitmap& other) { std::copy_n(other.data(), words(), data()); }

  // The flip turns the search for a clear bit into one for a set bit.
  [[nodiscard]] uint32_t scan(uint32_t pos, uint32_t len, uint64_t flip) const {
    DCHECK(len <= size());
    uint32_t done = 0;
    while (done < len) {
      const uint32_t at = pos + done;
      const uint32_t run = run_in_word(at, len - done);
      const uint64_t bits = ((word(at) ^ flip) >> bit_of(at)) & low_mask(run);
      if (bits != 0) return done + static_cast<uint32_t>(std::countr_zero(bits));
      done += run;
    }
    return len;
  }

  uint32_t mask_;
  std::array<uint64_t, kInline> inline_{};
  std::unique_ptr<uint64_t[]> wide_;  // in place of inline_, of larger maps
};

}  // namespace mprdma
