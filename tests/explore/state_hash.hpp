// Hashes of states, and the set of those that were visited. 64 bits: of ten million states two
// differ and share a hash with a probability of 3 in a million; the second one is then skipped.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace mprdma::explore {

class StateHash {
 public:
  void add(uint64_t word) {
    mix(lanes_[next_], word);
    next_ = (next_ + 1) % kLanes;
  }
  // Whole words; the rest is padded with zeros.
  void add_bytes(std::span<const uint8_t> bytes) {
    size_t at = 0;
    auto [a, b, c, d] = lanes_;
    for (; at + kBlockBytes <= bytes.size(); at += kBlockBytes) {
      Lanes words;
      std::memcpy(words.data(), &bytes[at], kBlockBytes);
      mix(a, words[0]);
      mix(b, words[1]);
      mix(c, words[2]);
      mix(d, words[3]);
    }
    lanes_ = {a, b, c, d};
    for (; at < bytes.size(); at += 8) {
      uint64_t word = 0;
      std::memcpy(&word, &bytes[at], bytes.size() - at < 8 ? bytes.size() - at : 8);
      add(word);
    }
  }
  [[nodiscard]] uint64_t value() const {
    uint64_t all = next_;
    for (const uint64_t lane : lanes_) all = finish(all * kMultiplier + lane);
    return all;
  }

 private:
  // As many as keep the multiplier busy.
  static constexpr size_t kLanes = 4;
  using Lanes = std::array<uint64_t, kLanes>;
  static constexpr size_t kBlockBytes = kLanes * 8;
  static constexpr uint64_t kMultiplier = 0x9e3779b185ebca87;
  static constexpr void mix(uint64_t& lane, uint64_t word) {
    lane = (std::rotl(lane, 29) ^ word) * kMultiplier;
  }
  static constexpr uint64_t finish(uint64_t x) {
    x = (x ^ (x >> 33)) * 0xff51afd7ed558ccd;
    x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53;
    return x ^ (x >> 33);
  }

  Lanes lanes_ = {1, 2, 3, 4};
  size_t next_ = 0;
};

// Open addressing; never more than half full.
class VisitedSet {
 public:
  // False: it was there.
  bool insert(uint64_t hash) {
    if (hash == 0) hash = 1;  // 0 marks an empty slot
    if (size_ * 2 >= slots_.size()) grow();
    uint64_t& slot = find(hash);
    if (slot == hash) return false;
    slot = hash;
    ++size_;
    return true;
  }
  [[nodiscard]] uint64_t size() const { return size_; }

 private:
  uint64_t& find(uint64_t hash) {
    size_t at = hash & (slots_.size() - 1);
    while (slots_[at] != 0 && slots_[at] != hash) at = (at + 1) & (slots_.size() - 1);
    return slots_[at];
  }
  void grow() {
    std::vector<uint64_t> before(slots_.size() * 2);
    before.swap(slots_);
    for (const uint64_t hash : before) {
      if (hash != 0) find(hash) = hash;
    }
  }

  std::vector<uint64_t> slots_ = std::vector<uint64_t>(1 << 16);
  uint64_t size_ = 0;
};

}  // namespace mprdma::explore
