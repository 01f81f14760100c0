#include "dataplane/port/dpdk/mbuf_pool.hpp"

#include <rte_errno.h>
#include <rte_mbuf.h>
#include <rte_mbuf_pool_ops.h>

namespace mprdma::dataplane {

rte_mempool* create_mbuf_pool(const std::string& name, uint32_t frames, uint16_t room, bool dense) {
  rte_mempool* pool = rte_mempool_create_empty(name.c_str(), frames, sizeof(rte_mbuf) + room, 0,
                                               sizeof(rte_pktmbuf_pool_private), SOCKET_ID_ANY,
                                               dense ? RTE_MEMPOOL_F_NO_SPREAD : 0);
  if (pool == nullptr) return nullptr;
  rte_pktmbuf_pool_private sizes{};
  sizes.mbuf_data_room_size = room;
  int error = rte_mempool_set_ops_byname(pool, "stack", nullptr);
  // DPDK may have been built without it.
  if (error != 0) error = rte_mempool_set_ops_byname(pool, rte_mbuf_best_mempool_ops(), nullptr);
  if (error == 0) {
    rte_pktmbuf_pool_init(pool, &sizes);
    error = rte_mempool_populate_default(pool);
  }
  if (error < 0) {
    rte_mempool_free(pool);
    rte_errno = -error;
    return nullptr;
  }
  rte_mempool_obj_iter(pool, rte_pktmbuf_init, nullptr);
  return pool;
}

}  // namespace mprdma::dataplane
