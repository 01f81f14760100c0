/* Preloaded: the devices that a program sees are not mprdma's, as an adapter's would be. */
#include <infiniband/mprdmadv.h>

bool mprdmadv_is_supported(struct ibv_device* device) {
  (void)device;
  return false;
}
