/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Facts about the device that are known without an engine: name, addresses, path MTU.
 *
 * The only source is the environment that `mprdma run` sets, so that the provider, the preload and
 * every child process of the application see the same device without talking to each other:
 *
 *   MPRDMA_ADDRESS  IPv4 address of the device with its prefix, "10.73.0.1/24". Required: without
 *                   it the preload is inert and the process has no mprdma device.
 *   MPRDMA_MAC      "02:4d:52:49:00:01"; default 02:4d:52 and the low three bytes of the address.
 *   MPRDMA_DEVICE   name of the device, default "mprdma0".
 *   MPRDMA_MTU      RoCE path MTU: 1024, 2048 or 4096 (default).
 *   MPRDMA_NETDEV   network interface shown beside the device; default: whichever has the address.
 *
 * GID table (RoCE v2 only, IBTA annex A17): 0 = fe80:: with the EUI-64 of the MAC, 1 = ::ffff:IPv4.
 * Included by the provider and by the preload; C11, no state.
 */
#pragma once

#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MPRDMA_FACTS_NAME_MAX 64
#define MPRDMA_FACTS_GIDS 2
#define MPRDMA_GID_TABLE 8 /* entries of the GID table: those beyond the GIDs are empty */

struct mprdma_device_facts {
  char name[MPRDMA_FACTS_NAME_MAX];
  char netdev[16]; /* as MPRDMA_NETDEV says; empty: not said */
  uint8_t mac[6];
  uint8_t ipv4[4];
  uint32_t prefix_bits;
  uint32_t mtu_bytes;
  uint8_t gid[MPRDMA_FACTS_GIDS][16];
  uint8_t node_guid[8]; /* network order */
};

/* Parses "a.b.c.d" or "a.b.c.d/n". Returns 0 or EINVAL. */
static inline int mprdma_facts_parse_address(const char* text, struct mprdma_device_facts* facts) {
  char host[INET_ADDRSTRLEN];
  const char* slash = strchr(text, '/');
  size_t length = slash != NULL ? (size_t)(slash - text) : strlen(text);
  if (length >= sizeof(host)) {
    return EINVAL;
  }
  memcpy(host, text, length);
  host[length] = '\0';
  if (inet_pton(AF_INET, host, facts->ipv4) != 1) {
    return EINVAL;
  }
  facts->prefix_bits = 32;
  if (slash != NULL) {
    char* end = NULL;
    unsigned long bits = strtoul(slash + 1, &end, 10);
    if (end == slash + 1 || *end != '\0' || bits > 32) {
      return EINVAL;
    }
    facts->prefix_bits = (uint32_t)bits;
  }
  return 0;
}

static inline int mprdma_facts_parse_mac(const char* text, uint8_t mac[6]) {
  unsigned int byte[6];
  int used = 0;
  int found = sscanf(text, "%2x:%2x:%2x:%2x:%2x:%2x%n", &byte[0], &byte[1], &byte[2], &byte[3],
                     &byte[4], &byte[5], &used);
  if (found != 6 || text[used] != '\0' || (byte[0] & 1u) != 0) {
    return EINVAL;
  }
  for (int i = 0; i < 6; i++) {
    mac[i] = (uint8_t)byte[i];
  }
  return 0;
}

/* RFC 4291 appendix A: the modified EUI-64 of a MAC. */
static inline void mprdma_facts_eui64(const uint8_t mac[6], uint8_t eui[8]) {
  const uint8_t bytes[8] = {
      (uint8_t)(mac[0] ^ 2u), mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};
  memcpy(eui, bytes, sizeof(bytes));
}

static inline void mprdma_facts_derive(struct mprdma_device_facts* facts) {
  static const uint8_t link_local[8] = {0xfe, 0x80};
  static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  memcpy(facts->gid[0], link_local, sizeof(link_local));
  mprdma_facts_eui64(facts->mac, facts->gid[0] + 8);
  memcpy(facts->gid[1], mapped, sizeof(mapped));
  memcpy(facts->gid[1] + 12, facts->ipv4, sizeof(facts->ipv4));
  mprdma_facts_eui64(facts->mac, facts->node_guid);
}

static inline int mprdma_facts_name_ok(const char* name) {
  size_t length = strlen(name);
  size_t legal = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
  return length > 0 && length < MPRDMA_FACTS_NAME_MAX && legal == length;
}

/*
 * Reads the environment. Returns 0; ENOENT when MPRDMA_ADDRESS is not set (no device); EINVAL with
 * *culprit = the name of the variable that is wrong.
 */
static inline int mprdma_device_facts_read(struct mprdma_device_facts* facts,
                                           const char** culprit) {
  memset(facts, 0, sizeof(*facts));
  const char* address = getenv("MPRDMA_ADDRESS");
  *culprit = "MPRDMA_ADDRESS";
  if (address == NULL || address[0] == '\0') {
    return ENOENT;
  }
  if (mprdma_facts_parse_address(address, facts) != 0) {
    return EINVAL;
  }
  const char* mac = getenv("MPRDMA_MAC");
  *culprit = "MPRDMA_MAC";
  if (mac == NULL || mac[0] == '\0') {
    const uint8_t derived[6] = {0x02, 0x4d, 0x52, facts->ipv4[1], facts->ipv4[2], facts->ipv4[3]};
    memcpy(facts->mac, derived, sizeof(derived));
  } else if (mprdma_facts_parse_mac(mac, facts->mac) != 0) {
    return EINVAL;
  }
  const char* name = getenv("MPRDMA_DEVICE");
  *culprit = "MPRDMA_DEVICE";
  if (name == NULL || name[0] == '\0') {
    name = "mprdma0";
  }
  if (!mprdma_facts_name_ok(name)) {
    return EINVAL;
  }
  memcpy(facts->name, name, strlen(name) + 1);
  const char* mtu = getenv("MPRDMA_MTU");
  *culprit = "MPRDMA_MTU";
  facts->mtu_bytes = mtu == NULL || mtu[0] == '\0' ? 4096u : (uint32_t)strtoul(mtu, NULL, 10);
  if (facts->mtu_bytes != 1024 && facts->mtu_bytes != 2048 && facts->mtu_bytes != 4096) {
    return EINVAL;
  }
  const char* netdev = getenv("MPRDMA_NETDEV");
  *culprit = "MPRDMA_NETDEV";
  if (netdev != NULL) {
    if (strlen(netdev) >= sizeof(facts->netdev) || strchr(netdev, '/') != NULL) {
      return EINVAL;
    }
    memcpy(facts->netdev, netdev, strlen(netdev) + 1);
  }
  *culprit = NULL;
  mprdma_facts_derive(facts);
  return 0;
}
