/* SPDX-License-Identifier: BSD-2-Clause */
/* The device's facts, read from the environment at first use, and its network interface. */
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>

#include "providers/mprdma/preload/preload.h"

static struct mprdma_device_facts facts;
static bool facts_valid;
static pthread_once_t facts_once = PTHREAD_ONCE_INIT;

static void read_facts(void) {
  const char* culprit = NULL;
  int error = mprdma_device_facts_read(&facts, &culprit);
  facts_valid = error == 0;
  if (error == EINVAL) {
    const char* value = getenv(culprit);
    fprintf(stderr, "mprdma: %s=\"%s\" is not understood; this process sees no mprdma device\n",
            culprit, value != NULL ? value : "");
  }
}

const struct mprdma_device_facts* mprdma_preload_facts(void) {
  pthread_once(&facts_once, read_facts);
  return facts_valid ? &facts : NULL;
}

static char netdev[IF_NAMESIZE];
static pthread_once_t netdev_once = PTHREAD_ONCE_INIT;

static void find_netdev(void) {
  const struct mprdma_device_facts* device = mprdma_preload_facts();
  if (device == NULL) {
    return;
  }
  if (device->netdev[0] != '\0') {
    memcpy(netdev, device->netdev, sizeof(device->netdev));
    return;
  }
  struct ifaddrs* list = NULL;
  if (getifaddrs(&list) != 0) {
    return;
  }
  for (const struct ifaddrs* i = list; i != NULL; i = i->ifa_next) {
    if (i->ifa_addr == NULL || i->ifa_addr->sa_family != AF_INET) {
      continue;
    }
    const struct sockaddr_in* in = (const struct sockaddr_in*)(const void*)i->ifa_addr;
    if (memcmp(&in->sin_addr, device->ipv4, sizeof(device->ipv4)) == 0) {
      snprintf(netdev, sizeof(netdev), "%s", i->ifa_name);
      break;
    }
  }
  freeifaddrs(list);
}

const char* mprdma_preload_netdev(void) {
  pthread_once(&netdev_once, find_netdev);
  return netdev;
}

unsigned int mprdma_preload_netdev_index(void) {
  const char* name = mprdma_preload_netdev();
  return name[0] != '\0' ? if_nametoindex(name) : 0;
}
