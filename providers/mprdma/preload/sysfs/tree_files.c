/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The files of the private tree: what the kernel's ib_core shows of a one-port RoCE v2 device
 * (Documentation/ABI/stable/sysfs-class-infiniband), and links to the host's real devices, so that
 * a listing shows both.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "providers/mprdma/preload/preload.h"

MPRDMA_REAL(int, open64, const char*, int, ...)
MPRDMA_REAL(DIR*, opendir, const char*)

/* Resolved early (see find_early() in hook_fd.c): a child builds its tree between fork and exec,
   too. */
__attribute__((constructor)) static void find_early(void) {
  open64_real();
  opendir_real();
}

/* Writes files at a place in the tree; the first error is kept. */
struct writer {
  const struct mprdma_tree* tree;
  const char* device;
  int error;
};

__attribute__((format(printf, 4, 5))) static void put(struct writer* w, const char* directory,
                                                      const char* name, const char* format, ...) {
  char path[PATH_MAX];
  if (w->error != 0) {
    return;
  }
  snprintf(path, sizeof(path), "%s%s/%s", w->tree->root, directory, name);
  int fd = open64_real()(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
  if (fd < 0) {
    w->error = errno;
    return;
  }
  va_list arguments;
  va_start(arguments, format);
  if (vdprintf(fd, format, arguments) < 0) {
    w->error = errno;
  }
  va_end(arguments);
  mprdma_fd_close(fd);
}

/* Makes a directory and those above it, below the root. */
static void make_directory(struct writer* w, const char* directory) {
  char path[PATH_MAX];
  int length = snprintf(path, sizeof(path), "%s%s", w->tree->root, directory);
  size_t root_length = strlen(w->tree->root);
  for (size_t i = root_length + 1; w->error == 0 && i <= (size_t)length; i++) {
    if (path[i] == '/' || path[i] == '\0') {
      char kept = path[i];
      path[i] = '\0';
      if (mkdir(path, 0755) != 0 && errno != EEXIST) {
        w->error = errno;
      }
      path[i] = kept;
    }
  }
}

/* Links every entry of the host's directory into ours. Missing on a host without RDMA: fine. */
static void link_real(struct writer* w, const char* real, const char* directory) {
  DIR* dir = opendir_real()(real);
  if (dir == NULL) {
    return;
  }
  const struct dirent* entry;
  while (w->error == 0 && (entry = readdir(dir)) != NULL) {
    char target[PATH_MAX];
    char link[PATH_MAX];
    if (entry->d_name[0] == '.') {
      continue;
    }
    snprintf(target, sizeof(target), "%s/%s", real, entry->d_name);
    snprintf(link, sizeof(link), "%s%s/%s", w->tree->root, directory, entry->d_name);
    if (symlink(target, link) != 0 && errno != EEXIST) {
      w->error = errno;
    }
  }
  closedir(dir);
}

static void gid_text(const uint8_t gid[16], char out[40]) {
  for (int i = 0; i < 8; i++) {
    snprintf(out + (ptrdiff_t)i * 5, 6, "%02x%02x%s", gid[i * 2], gid[i * 2 + 1], i < 7 ? ":" : "");
  }
}

static void put_guids(struct writer* w, const char* dir, const uint8_t guid[8]) {
  char text[20];
  snprintf(text, sizeof(text), "%02x%02x:%02x%02x:%02x%02x:%02x%02x", guid[0], guid[1], guid[2],
           guid[3], guid[4], guid[5], guid[6], guid[7]);
  put(w, dir, "node_guid", "%s\n", text);
  put(w, dir, "sys_image_guid", "%s\n", text);
}

static void put_gids(struct writer* w, const struct mprdma_device_facts* facts, const char* port) {
  char dir[PATH_MAX / 2];
  char text[40];
  char index[16];
  static const uint8_t kEmpty[16] = {0};
  for (int i = 0; i < MPRDMA_GID_TABLE; i++) {
    snprintf(index, sizeof(index), "%d", i);
    gid_text(i < MPRDMA_FACTS_GIDS ? facts->gid[i] : kEmpty, text);
    snprintf(dir, sizeof(dir), "%s/gids", port);
    make_directory(w, dir);
    put(w, dir, index, "%s\n", text);
    if (i >= MPRDMA_FACTS_GIDS) {
      continue; /* an empty entry has no attributes */
    }
    snprintf(dir, sizeof(dir), "%s/gid_attrs/types", port);
    make_directory(w, dir);
    put(w, dir, index, "RoCE v2\n");
    snprintf(dir, sizeof(dir), "%s/gid_attrs/ndevs", port);
    make_directory(w, dir);
    if (mprdma_preload_netdev()[0] != '\0') {
      put(w, dir, index, "%s\n", mprdma_preload_netdev());
    }
  }
}

static void put_counters(struct writer* w, const char* port) {
  static const char* const kCounters[] = {"port_rcv_data",
                                          "port_rcv_packets",
                                          "port_rcv_errors",
                                          "port_xmit_data",
                                          "port_xmit_packets",
                                          "port_xmit_discards",
                                          "port_xmit_wait",
                                          "multicast_rcv_packets",
                                          "multicast_xmit_packets",
                                          "symbol_error",
                                          "local_link_integrity_errors",
                                          "excessive_buffer_overrun_errors",
                                          "link_downed",
                                          "link_error_recovery",
                                          "port_rcv_constraint_errors",
                                          "VL15_dropped",
                                          "unicast_rcv_packets",
                                          "unicast_xmit_packets",
                                          "port_rcv_remote_physical_errors",
                                          "port_rcv_switch_relay_errors",
                                          "port_xmit_constraint_errors"};
  char dir[PATH_MAX / 2];
  snprintf(dir, sizeof(dir), "%s/hw_counters", port);
  make_directory(w, dir);
  snprintf(dir, sizeof(dir), "%s/counters", port);
  make_directory(w, dir);
  for (size_t i = 0; i < sizeof(kCounters) / sizeof(kCounters[0]); i++) {
    put(w, dir, kCounters[i], "0\n");
  }
}

static void put_port(struct writer* w, const struct mprdma_device_facts* facts, const char* dev) {
  char port[PATH_MAX / 4];
  char dir[PATH_MAX / 2];
  snprintf(port, sizeof(port), "%s/ports/1", dev);
  make_directory(w, port);
  put(w, port, "state", "4: ACTIVE\n");
  put(w, port, "phys_state", "5: LinkUp\n");
  put(w, port, "link_layer", "Ethernet\n");
  put(w, port, "rate", "100 Gb/sec (4X EDR)\n");
  put(w, port, "lid", "0x0\n");
  put(w, port, "lid_mask_count", "0\n");
  put(w, port, "sm_lid", "0x0\n");
  put(w, port, "sm_sl", "0\n");
  put(w, port, "cap_mask", "0x00010000\n");
  snprintf(dir, sizeof(dir), "%s/pkeys", port);
  make_directory(w, dir);
  put(w, dir, "0", "0xffff\n");
  put_gids(w, facts, port);
  put_counters(w, port);
}

/* Files that UCX, NCCL and pyverbs read about the RDMA device's parent device. */
static void put_parent(struct writer* w, const struct mprdma_device_facts* facts, const char* dev) {
  char dir[PATH_MAX / 2];
  long cpus = sysconf(_SC_NPROCESSORS_CONF);
  /* Without an interface there is no net/ either: scripts would take the name of the interface in
   * an empty one to be "". */
  if (mprdma_preload_netdev()[0] != '\0') {
    snprintf(dir, sizeof(dir), "%s/device/net/%s", dev, mprdma_preload_netdev());
    make_directory(w, dir);
    put(w, dir, "address", "%02x:%02x:%02x:%02x:%02x:%02x\n", facts->mac[0], facts->mac[1],
        facts->mac[2], facts->mac[3], facts->mac[4], facts->mac[5]);
    put(w, dir, "dev_port", "0\n");
  }
  snprintf(dir, sizeof(dir), "%s/device/infiniband_verbs/%s", dev, w->tree->uverbs_name);
  make_directory(w, dir);
  snprintf(dir, sizeof(dir), "%s/device", dev);
  put(w, dir, "numa_node", "-1\n");
  put(w, dir, "local_cpulist", "0-%ld\n", cpus > 0 ? cpus - 1 : 0);
  char mask[1024] = "";
  size_t used = 0;
  for (long word = (cpus + 31) / 32 - 1; word >= 0 && used + 10 < sizeof(mask); word--) {
    long bits = cpus - word * 32;
    unsigned long value = bits >= 32 ? 0xfffffffful : (1ul << bits) - 1;
    used +=
        (size_t)snprintf(mask + used, sizeof(mask) - used, "%08lx%s", value, word > 0 ? "," : "");
  }
  put(w, dir, "local_cpus", "%s\n", mask);
  /* The provider matches this alias if the device's name does not begin with "mprdma". */
  put(w, dir, "modalias", "rdma_device:Nmprdma_%s\n", facts->name);
}

static void put_device(struct writer* w, const struct mprdma_device_facts* facts) {
  char dev[PATH_MAX / 8];
  snprintf(dev, sizeof(dev), "/sys/class/infiniband/%s", facts->name);
  make_directory(w, dev);
  put(w, dev, "node_type", "1: CA\n");
  put(w, dev, "node_desc", "mprdma software device\n");
  put(w, dev, "fw_ver", "0.1.0\n");
  put(w, dev, "hw_rev", "0x0\n");
  put(w, dev, "hca_type", "mprdma\n");
  put(w, dev, "board_id", "mprdma\n");
  put_guids(w, dev, facts->node_guid);
  put_port(w, facts, dev);
  put_parent(w, facts, dev);
}

static void put_uverbs(struct writer* w, const struct mprdma_device_facts* facts) {
  char dir[PATH_MAX / 8];
  char path[PATH_MAX];
  put(w, "/sys/class/infiniband_verbs", "abi_version", "6\n");
  snprintf(dir, sizeof(dir), "/sys/class/infiniband_verbs/%s", w->tree->uverbs_name);
  make_directory(w, dir);
  put(w, dir, "ibdev", "%s\n", facts->name);
  put(w, dir, "abi_version", "1\n");
  put(w, dir, "dev", "%u:%u\n", MPRDMA_UVERBS_MAJOR, w->tree->uverbs_minor);
  snprintf(path, sizeof(path), "%s/dev/infiniband/%s", w->tree->root, w->tree->uverbs_name);
  if (w->error == 0 && symlink("/dev/null", path) != 0) {
    w->error = errno;
  }
}

/* <rdma/rdma_user_cm.h> RDMA_USER_CM_ABI_VERSION */
static void put_rdma_cm(struct writer* w) {
  static const char kDirectory[] = "/sys/class/misc/rdma_cm";
  char path[PATH_MAX];
  make_directory(w, kDirectory);
  put(w, kDirectory, "abi_version", "4\n");
  put(w, kDirectory, "dev", "%u:%u\n", MPRDMA_RDMA_CM_MAJOR, MPRDMA_RDMA_CM_MINOR);
  snprintf(path, sizeof(path), "%s/dev/infiniband/rdma_cm", w->tree->root);
  if (w->error == 0 && symlink("/dev/null", path) != 0) {
    w->error = errno;
  }
}

/* libibverbs tells a device that came back from one that stayed by this time: keep it the same. */
static void freeze_time(struct writer* w, const struct mprdma_device_facts* facts) {
  const struct timespec times[2] = {{.tv_sec = 1577836800}, {.tv_sec = 1577836800}};
  char path[PATH_MAX];
  snprintf(path, sizeof(path), "%s/sys/class/infiniband/%s", w->tree->root, facts->name);
  if (w->error == 0 && utimensat(AT_FDCWD, path, times, 0) != 0) {
    w->error = errno;
  }
}

int mprdma_tree_write(const struct mprdma_tree* tree) {
  const struct mprdma_device_facts* facts = mprdma_preload_facts();
  struct writer w = {.tree = tree, .device = facts->name, .error = 0};
  char real[PATH_MAX];
  make_directory(&w, "/sys/class/infiniband");
  make_directory(&w, "/sys/class/infiniband_verbs");
  make_directory(&w, "/dev/infiniband");
  put_device(&w, facts);
  put_uverbs(&w, facts);
  put_rdma_cm(&w);
  snprintf(real, sizeof(real), "%s/class/infiniband", mprdma_real_sysfs());
  link_real(&w, real, "/sys/class/infiniband");
  snprintf(real, sizeof(real), "%s/class/infiniband_verbs", mprdma_real_sysfs());
  link_real(&w, real, "/sys/class/infiniband_verbs");
  snprintf(real, sizeof(real), "%s/infiniband", mprdma_real_dev());
  link_real(&w, real, "/dev/infiniband");
  freeze_time(&w, facts);
  return w.error;
}
