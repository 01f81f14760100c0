/* SPDX-License-Identifier: BSD-2-Clause */
/* Conversions between the forms of addresses. */
#include "providers/mprdma/preload/ucma/ucma.h"

static const uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

bool mprdma_ucma_from_sockaddr(const void* sockaddr, size_t bytes, uint16_t* family,
                               struct mprdma_abi_cm_address* out) {
  memset(out, 0, sizeof(*out));
  memcpy(family, sockaddr, sizeof(*family));
  if (*family == AF_INET && bytes >= sizeof(struct sockaddr_in)) {
    struct sockaddr_in in;
    memcpy(&in, sockaddr, sizeof(in));
    memcpy(out->ip, kMapped, sizeof(kMapped));
    memcpy(out->ip + sizeof(kMapped), &in.sin_addr, sizeof(in.sin_addr));
    out->port = ntohs(in.sin_port);
    return true;
  }
  if (*family == AF_INET6 && bytes >= sizeof(struct sockaddr_in6)) {
    struct sockaddr_in6 in;
    memcpy(&in, sockaddr, sizeof(in));
    memcpy(out->ip, &in.sin6_addr, sizeof(out->ip));
    out->port = ntohs(in.sin6_port);
    return true;
  }
  return false;
}

size_t mprdma_ucma_to_sockaddr(uint16_t family, const struct mprdma_abi_cm_address* address,
                               void* out) {
  if (family == AF_INET) {
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(address->port)};
    memcpy(&in.sin_addr, address->ip + sizeof(kMapped), sizeof(in.sin_addr));
    memcpy(out, &in, sizeof(in));
    return sizeof(in);
  }
  if (family == AF_INET6) {
    struct sockaddr_in6 in = {.sin6_family = AF_INET6, .sin6_port = htons(address->port)};
    memcpy(&in.sin6_addr, address->ip, sizeof(address->ip));
    memcpy(out, &in, sizeof(in));
    return sizeof(in);
  }
  return 0;
}

static bool is_mapped(const struct mprdma_abi_cm_address* address) {
  return memcmp(address->ip, kMapped, sizeof(kMapped)) == 0;
}

uint16_t mprdma_ucma_family_of(const struct mprdma_abi_cm_address* address) {
  return is_mapped(address) ? AF_INET : AF_INET6;
}

struct mprdma_abi_cm_address mprdma_ucma_any(uint16_t family) {
  struct mprdma_abi_cm_address any;
  memset(&any, 0, sizeof(any));
  if (family == AF_INET) {
    memcpy(any.ip, kMapped, sizeof(kMapped));
  }
  return any;
}

bool mprdma_ucma_is_any(const struct mprdma_abi_cm_address* address) {
  static const uint8_t kZero[16];
  return is_mapped(address) ? memcmp(address->ip + sizeof(kMapped), kZero, 4) == 0
                            : memcmp(address->ip, kZero, sizeof(kZero)) == 0;
}

bool mprdma_ucma_is_multicast(const struct mprdma_abi_cm_address* address) {
  return is_mapped(address) ? (address->ip[sizeof(kMapped)] & 0xf0u) == 0xe0u
                            : address->ip[0] == 0xffu;
}

bool mprdma_ucma_has_device(const struct ucma_id* id) {
  return id->local_family != 0 && !mprdma_ucma_is_any(&id->local);
}
