// The packet buffers of an EthdevPort.
#pragma once

#include <rte_mempool.h>

#include <cstdint>
#include <string>

namespace mprdma::dataplane {

// Creates a pool of so many buffers with `room` bytes each, headroom included, as
// rte_pktmbuf_pool_create() does, from which the buffer comes next that was freed last: it is still
// in the cache. (By default the buffers go in a circle, 16 MB long.) `dense`: without the gaps that
// spread buffers over memory channels. The caller frees it; nullptr: rte_errno tells why not.
rte_mempool* create_mbuf_pool(const std::string& name, uint32_t frames, uint16_t room, bool dense);

}  // namespace mprdma::dataplane
