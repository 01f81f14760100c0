// Fields of a verilated module's port that is wider than a word, the lowest first.
#pragma once

#include <verilated.h>

#include <cstddef>
#include <cstdint>

namespace mprdma::offload {

template <size_t kWords>
class Writer {
 public:
  explicit Writer(VlWide<kWords>& words) : words_(words) {
    for (size_t i = 0; i < kWords; ++i) words_[i] = 0;
  }
  void put(uint64_t value, uint32_t bits) {
    for (uint32_t i = 0; i < bits; ++i, ++at_) {
      words_[at_ / 32] |= static_cast<uint32_t>(value >> i & 1) << at_ % 32;
    }
  }

 private:
  VlWide<kWords>& words_;
  uint32_t at_ = 0;
};

template <size_t kWords>
class Reader {
 public:
  explicit Reader(const VlWide<kWords>& words) : words_(words) {}
  uint64_t get(uint32_t bits) {
    uint64_t value = 0;
    for (uint32_t i = 0; i < bits; ++i, ++at_) {
      value |= uint64_t{words_[at_ / 32] >> at_ % 32 & 1} << i;
    }
    return value;
  }

 private:
  const VlWide<kWords>& words_;
  uint32_t at_ = 0;
};

}  // namespace mprdma::offload
