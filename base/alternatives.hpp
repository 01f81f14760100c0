// One of several classes, chosen by an enumeration when an object is made: a list gives both, so
// that they cannot disagree. A tag dispatches, nothing is virtual.
//
//   #define THINGS(X) X(kFirst, FirstThing) X(kSecond, SecondThing)
//   enum class Which : uint8_t { THINGS(MPRDMA_ENUMERATOR) };
//   using Things = Alternatives<void THINGS(MPRDMA_ALTERNATIVE)>;
//   Things::Any thing = Things::make(Which::kSecond);   // then std::visit
//
// Each class has a kName, its name in configurations.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#define MPRDMA_ENUMERATOR(enumerator, type) enumerator,
#define MPRDMA_ALTERNATIVE(enumerator, type) , type

namespace mprdma {

// The first argument is the empty place before the list's first comma.
template <class Nothing, class... Each>
struct Alternatives {
  using Any = std::variant<Each...>;
  static_assert((std::is_nothrow_move_constructible_v<Each> && ...));

  // Names in the order of the enumeration.
  static constexpr std::initializer_list<std::string_view> kNames = {Each::kName...};

  template <class Which, class... Args>
  static Any make(Which which, const Args&... args) {
    return make_at(static_cast<size_t>(which), std::index_sequence_for<Each...>(), args...);
  }

 private:
  // Each alternative is made in its place: what emplace() would copy has unused bytes, of which
  // compilers warn.
  template <size_t kFirst, size_t... kRest, class... Args>
  static Any make_at(size_t which, std::index_sequence<kFirst, kRest...>, const Args&... args) {
    if (which == kFirst) return Any(std::in_place_index<kFirst>, args...);
    return make_at(which, std::index_sequence<kRest...>(), args...);
  }
  template <class... Args>
  static Any make_at(size_t, std::index_sequence<>, const Args&... args) {
    return Any(std::in_place_index<0>, args...);
  }
};

}  // namespace mprdma
