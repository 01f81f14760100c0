// A payload that stays in the sender's memory until the receiver has read it, between two engines
// that trust each other: one copy instead of two.
//
// It stands behind the header of a bare packet in the place of the payload. The receiver reads the
// bytes with process_vm_readv(2), then looks whether the ticket is still the same, and only then
// takes the packet. The sender takes a payload back by changing the ticket: before it tells the
// application that the request has failed, or that the memory is no longer registered, or forgets
// the request, for then the memory may be used anew. An acknowledged payload has been read.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace mprdma::dataplane {

// Bytes. Shorter payloads are copied into the frame. At 8 KiB the system call already gains, by
// bench/figure9; less has not been measured.
inline constexpr uint32_t kLendMin = 8192;

struct LentPayload {
  static constexpr size_t kBytes = 16;

  uint64_t address;  // in the sender's address space
  uint64_t ticket;   // the port's; 0: taken back

  // A private copy of what stands at `at`.
  static LentPayload load(const unsigned char* at) {
    LentPayload lent;
    std::memcpy(&lent.address, at, sizeof lent.address);
    lent.ticket = ticket_at(at);
    return lent;
  }
  // True if the sender has not taken it back, until now, from the frame in which it stands at `at`.
  [[nodiscard]] bool still_stands(const unsigned char* at) const {
    // Whatever was read of the payload was read before this.
    std::atomic_thread_fence(std::memory_order_acquire);
    return ticket != 0 && ticket_at(at) == ticket;
  }

  // `at`: aligned to 8 bytes.
  static void store(unsigned char* at, uint64_t address, uint64_t ticket) {
    std::memcpy(at, &address, sizeof address);
    set_ticket(at, ticket);
  }
  static void set_ticket(unsigned char* at, uint64_t ticket) {
    __atomic_store_n(reinterpret_cast<uint64_t*>(at + offsetof(LentPayload, ticket)), ticket,
                     __ATOMIC_RELAXED);
  }

 private:
  static uint64_t ticket_at(const unsigned char* at) {
    return __atomic_load_n(reinterpret_cast<const uint64_t*>(at + offsetof(LentPayload, ticket)),
                           __ATOMIC_ACQUIRE);
  }
};
static_assert(sizeof(LentPayload) == LentPayload::kBytes);

}  // namespace mprdma::dataplane
