// Time stamps at the stages of a message, in a build with -Dstages=true only: where the time of a
// short message goes is seen in no counter, and a profiler shows what runs, not what waits.
//
// Each thread keeps its own stamps, by the time stamp counter, which the cores of a machine share;
// a stamp costs some 10 ns. A thread that ends, and the main thread at the end of the process,
// writes them into the directory that MPRDMA_STAGES names; bench/stages puts those of two processes
// together.
#pragma once

#include <cstdint>

namespace mprdma::dataplane {

// In the order in which a message passes them: the first ones at its sender, the others at its
// receiver. One list makes the names and their texts.
#define MPRDMA_STAGES(X)                                                      \
  X(kPosted, "posted", "the provider has called the engine")                  \
  X(kPostLocked, "post_locked", "the sender has the lock")                    \
  X(kSent, "sent", "the packet is in the ring")                               \
  X(kWakes, "wakes", "the sender begins the system call that wakes the peer") \
  X(kWoken, "woken", "the receiver's helper has left its wait")               \
  X(kHelperLocked, "helper_locked", "the helper has the lock")                \
  X(kTaken, "taken", "the receiver has taken the frames of a burst")          \
  X(kPlaced, "placed", "the payload is in the application's memory")          \
  X(kPollLeft, "poll_left", "a poll that found something returns")

enum class Stage : uint8_t {
#define MPRDMA_STAGE(name, word, text) name,
  MPRDMA_STAGES(MPRDMA_STAGE)
#undef MPRDMA_STAGE
};

#ifdef MPRDMA_WITH_STAGES
void stamp(Stage stage);
#else
inline void stamp(Stage /*stage*/) {}
#endif

}  // namespace mprdma::dataplane
