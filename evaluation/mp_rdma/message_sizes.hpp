// The message sizes of figures 18 and 19.
#pragma once

#include <array>
#include <cstdint>

namespace mprdma::figures {

struct MessageSize {
  uint64_t bytes;
  const char* name;
  const char* id;
};
inline constexpr MessageSize kLargeMessages = {512 * 1024, "512 KB", "512k"};
inline constexpr MessageSize kSmallMessages = {32 * 1024, "32 KB", "32k"};
inline constexpr std::array<const MessageSize*, 2> kMessageSizes = {&kLargeMessages,
                                                                    &kSmallMessages};

}  // namespace mprdma::figures
