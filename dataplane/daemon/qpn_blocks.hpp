// Owners of the blocks of queue pair numbers (protocol.hpp).
//
// The block of a client that left rests for kRest, so that late packets of its queue pairs match no
// queue pair; only the last owner, known by its random instance, gets the block back earlier. If no
// other block is free, the block that has rested longest is given. A new client gets a random one
// of the free blocks: a restarted daemon starts with the blocks of its predecessor at rest, so that
// a new client does not take a block whose owner will return.
//
// Pure. Owned and called by the server's thread.
#pragma once

#include <array>
#include <cstdint>

#include "base/prng.hpp"
#include "base/units.hpp"
#include "dataplane/client/protocol.hpp"

namespace mprdma::dataplane::mprdmad {

class BlockTable {
 public:
  static constexpr Duration kRest = Duration::s(30);
  using Instances = std::array<uint64_t, client::kBlocks>;

  explicit BlockTable(uint64_t seed) : prng_(seed) {}

  // Restores the owners that the previous daemon recorded; 0: no owner.
  void restore(const Instances& instances, Time now);

  // Allocates a block for `instance`, which has none; kNoBlock: all are in use. `wanted` is given
  // if it is free or was this instance's own.
  uint32_t assign(uint64_t instance, uint32_t wanted, Time now);
  void release(uint32_t block, Time now);

  // The last owner of each block, as restore() takes it.
  [[nodiscard]] Instances instances() const;
  [[nodiscard]] uint32_t in_use() const;

 private:
  struct Block {
    uint64_t instance = 0;
    bool used = false;
    Time rests_until;
  };

  uint32_t assign(uint32_t block, uint64_t instance);
  uint32_t random_free(Time now);

  Prng prng_;
  std::array<Block, client::kBlocks> blocks_;
};

}  // namespace mprdma::dataplane::mprdmad
