// ZeroedArray: many objects of zero bytes, of which few are used: memory that is not written costs
// address space only.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>
#include <type_traits>

#include "base/check.hpp"

namespace mprdma {

template <class T>
class ZeroedArray {
  // Objects of such a type begin to live where calloc() makes their memory (C++20, P0593).
  static_assert(std::is_trivially_copyable_v<T> && (std::is_aggregate_v<T> || std::is_scalar_v<T>));

 public:
  explicit ZeroedArray(size_t size)
      : data_(static_cast<T*>(std::calloc(size, sizeof(T)))), size_(size) {
    CHECK(data_ != nullptr || size == 0);
  }
  [[nodiscard]] T& operator[](size_t i) const { return data_[i]; }
  operator std::span<T>() { return {data_.get(), size_}; }  // NOLINT(google-explicit-constructor)

 private:
  struct Free {
    void operator()(T* data) const { std::free(data); }
  };
  std::unique_ptr<T[], Free> data_;
  size_t size_;
};

}  // namespace mprdma
