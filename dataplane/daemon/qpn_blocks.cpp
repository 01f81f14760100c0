#include "dataplane/daemon/qpn_blocks.hpp"

#include "base/check.hpp"

namespace mprdma::dataplane::mprdmad {

void BlockTable::restore(const Instances& instances, Time now) {
  for (uint32_t i = 0; i < client::kBlocks; ++i) {
    if (instances[i] == 0 || blocks_[i].used) continue;
    blocks_[i] = {instances[i], false, now + kRest};
  }
}

uint32_t BlockTable::assign(uint32_t block, uint64_t instance) {
  blocks_[block] = {instance, true, {}};
  return block;
}

uint32_t BlockTable::random_free(Time now) {
  uint32_t free = 0;
  for (const Block& block : blocks_) free += !block.used && block.rests_until <= now ? 1 : 0;
  if (free == 0) return client::kNoBlock;
  uint64_t left = prng_.below(free);
  for (uint32_t i = 0; i < client::kBlocks; ++i) {
    if (blocks_[i].used || blocks_[i].rests_until > now) continue;
    if (left-- == 0) return i;
  }
  return client::kNoBlock;
}

uint32_t BlockTable::assign(uint64_t instance, uint32_t wanted, Time now) {
  if (wanted < client::kBlocks && !blocks_[wanted].used &&
      (blocks_[wanted].instance == instance || blocks_[wanted].rests_until <= now)) {
    return assign(wanted, instance);
  }
  uint32_t found = random_free(now);
  if (found != client::kNoBlock) return assign(found, instance);
  for (uint32_t i = 0; i < client::kBlocks; ++i) {
    if (blocks_[i].used) continue;
    if (found == client::kNoBlock || blocks_[i].rests_until < blocks_[found].rests_until) found = i;
  }
  return found == client::kNoBlock ? client::kNoBlock : assign(found, instance);
}

void BlockTable::release(uint32_t block, Time now) {
  DCHECK(block < client::kBlocks && blocks_[block].used);
  blocks_[block].used = false;
  blocks_[block].rests_until = now + kRest;
}

BlockTable::Instances BlockTable::instances() const {
  Instances instances;
  for (uint32_t i = 0; i < client::kBlocks; ++i) instances[i] = blocks_[i].instance;
  return instances;
}

uint32_t BlockTable::in_use() const {
  uint32_t used = 0;
  for (const Block& block : blocks_) used += block.used ? 1 : 0;
  return used;
}

}  // namespace mprdma::dataplane::mprdmad
