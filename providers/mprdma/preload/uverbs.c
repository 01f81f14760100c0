/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A mini-uverbs: the RDMA_VERBS_IOCTL methods that libibverbs itself sends, whatever the provider
 * does (GID queries, completion channels, the event channel of an imported device). The rest is
 * EPROTONOSUPPORT, as from a kernel that does not know the method. Wire format:
 * <rdma/rdma_user_ioctl_cmds.h>, <rdma/ib_user_ioctl_cmds.h>.
 */
#include <fcntl.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <unistd.h>

#include "providers/mprdma/preload/preload.h"
#include "providers/mprdma/preload_link.h"

MPRDMA_REAL(int, fcntl64, int, int, ...)

#define GID_TYPE_ROCE_V2 2u /* enum ib_uverbs_gid_type */

static struct ib_uverbs_attr* find(struct ib_uverbs_ioctl_hdr* header, uint16_t id) {
  for (unsigned int i = 0; i < header->num_attrs; i++) {
    if (header->attrs[i].attr_id == id) {
      return &header->attrs[i];
    }
  }
  return NULL;
}

/* An input of at most 8 bytes travels inside the attribute. */
static bool get_u64(struct ib_uverbs_ioctl_hdr* header, uint16_t id, uint64_t* value) {
  const struct ib_uverbs_attr* attr = find(header, id);
  if (attr == NULL || attr->len > sizeof(*value)) {
    return false;
  }
  *value = attr->data;
  if (attr->len > 0 && attr->len < sizeof(*value)) {
    *value &= (1ull << (attr->len * 8u)) - 1;
  }
  return true;
}

static void* output(struct ib_uverbs_attr* attr) {
  return (void*)(uintptr_t)attr->data;
}

/* Copies what fits and clears the rest, as the kernel does for a caller with longer structures. */
static void put_output(struct ib_uverbs_attr* attr, const void* value, size_t bytes) {
  size_t copied = bytes < attr->len ? bytes : attr->len;
  memcpy(output(attr), value, copied);
  memset((char*)output(attr) + copied, 0, attr->len - copied);
  attr->flags |= UVERBS_ATTR_F_VALID_OUTPUT;
}

static struct ib_uverbs_gid_entry gid_entry(uint32_t index) {
  const struct mprdma_device_facts* facts = mprdma_preload_facts();
  struct ib_uverbs_gid_entry entry = {.gid_index = index,
                                      .port_num = 1,
                                      .gid_type = GID_TYPE_ROCE_V2,
                                      .netdev_ifindex = mprdma_preload_netdev_index()};
  memcpy(entry.gid, facts->gid[index], sizeof(entry.gid));
  return entry;
}

static int query_gid_entry(struct ib_uverbs_ioctl_hdr* header) {
  uint64_t port = 0;
  uint64_t index = 0;
  uint64_t flags = 0;
  struct ib_uverbs_attr* response = find(header, UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY);
  if (!get_u64(header, UVERBS_ATTR_QUERY_GID_ENTRY_PORT, &port) ||
      !get_u64(header, UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX, &index) ||
      !get_u64(header, UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, &flags) || response == NULL) {
    return EINVAL;
  }
  if (port != 1 || index >= MPRDMA_GID_TABLE || flags != 0) {
    return EINVAL;
  }
  if (index >= MPRDMA_FACTS_GIDS) {
    return ENODATA; /* an empty entry */
  }
  struct ib_uverbs_gid_entry entry = gid_entry((uint32_t)index);
  put_output(response, &entry, sizeof(entry));
  return 0;
}

static int query_gid_table(struct ib_uverbs_ioctl_hdr* header) {
  uint64_t entry_bytes = 0;
  uint64_t flags = 0;
  struct ib_uverbs_attr* entries = find(header, UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES);
  struct ib_uverbs_attr* count = find(header, UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES);
  if (!get_u64(header, UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, &entry_bytes) ||
      !get_u64(header, UVERBS_ATTR_QUERY_GID_TABLE_FLAGS, &flags) || entries == NULL ||
      count == NULL) {
    return EINVAL;
  }
  /* The kernel fails, rather than truncate, when the caller has less room than there are GIDs. */
  if (flags != 0 || entry_bytes == 0 || entries->len / entry_bytes < MPRDMA_FACTS_GIDS) {
    return EINVAL;
  }
  memset(output(entries), 0, entries->len);
  for (uint32_t i = 0; i < MPRDMA_FACTS_GIDS; i++) {
    struct ib_uverbs_gid_entry entry = gid_entry(i);
    memcpy((char*)output(entries) + i * entry_bytes, &entry,
           entry_bytes < sizeof(entry) ? entry_bytes : sizeof(entry));
  }
  entries->flags |= UVERBS_ATTR_F_VALID_OUTPUT;
  uint64_t number = MPRDMA_FACTS_GIDS;
  put_output(count, &number, sizeof(number));
  return 0;
}

/* The application reads the pipe; the provider writes it (mprdma_preload_dup_event_pipe). */
static int create_event_pipe(int* read_fd) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) {
    return errno;
  }
  int flags = fcntl64_real()(fds[1], F_GETFL);
  if (fcntl64_real()(fds[1], F_SETFL, flags | O_NONBLOCK) != 0 ||
      !mprdma_fd_set(fds[0], MPRDMA_FD_CHANNEL, fds[1])) {
    mprdma_fd_close(fds[0]);
    mprdma_fd_close(fds[1]);
    return EMFILE;
  }
  *read_fd = fds[0];
  return 0;
}

static int create_comp_channel(struct ib_uverbs_ioctl_hdr* header) {
  struct ib_uverbs_attr* out = find(header, UVERBS_ATTR_CORE_OUT);
  struct ib_uverbs_create_comp_channel_resp response;
  int fd = -1;
  if (out == NULL || out->len < sizeof(response)) {
    return ENOSPC;
  }
  int error = create_event_pipe(&fd);
  if (error == 0) {
    response.fd = (uint32_t)fd;
    put_output(out, &response, sizeof(response));
  }
  return error;
}

/* Makes the channel of asynchronous events of an imported device, which libibverbs asks for after
 * the provider made the context. */
static int create_async_channel(struct ib_uverbs_ioctl_hdr* header) {
  struct ib_uverbs_attr* out = find(header, UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE);
  int fd = -1;
  int error = out != NULL ? create_event_pipe(&fd) : EINVAL;
  if (error == 0) {
    out->data = (uint64_t)fd;
    out->flags |= UVERBS_ATTR_F_VALID_OUTPUT;
  }
  return error;
}

static int invoke_write(struct ib_uverbs_ioctl_hdr* header) {
  uint64_t command = 0;
  if (!get_u64(header, UVERBS_ATTR_WRITE_CMD, &command)) {
    return EINVAL;
  }
  switch (command) {
    case IB_USER_VERBS_CMD_QUERY_DEVICE:
      /* libibverbs asks for INVOKE_WRITE this way, without room for the answer. */
      return find(header, UVERBS_ATTR_CORE_OUT) == NULL ? ENOSPC : EOPNOTSUPP;
    case IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL:
      return create_comp_channel(header);
    default:
      return EOPNOTSUPP;
  }
}

static int dispatch(struct ib_uverbs_ioctl_hdr* header) {
  if (header == NULL) {
    return EFAULT;
  }
  size_t bytes = sizeof(*header) + header->num_attrs * sizeof(header->attrs[0]);
  if (header->length != bytes || header->reserved1 != 0 || header->reserved2 != 0) {
    return EINVAL;
  }
  if (mprdma_preload_facts() == NULL) {
    return EPROTONOSUPPORT;
  }
  if (header->object_id == UVERBS_OBJECT_ASYNC_EVENT) {
    return header->method_id == UVERBS_METHOD_ASYNC_EVENT_ALLOC ? create_async_channel(header)
                                                                : EPROTONOSUPPORT;
  }
  if (header->object_id != UVERBS_OBJECT_DEVICE) {
    return EPROTONOSUPPORT;
  }
  switch (header->method_id) {
    case UVERBS_METHOD_INVOKE_WRITE:
      return invoke_write(header);
    case UVERBS_METHOD_QUERY_GID_ENTRY:
      return query_gid_entry(header);
    case UVERBS_METHOD_QUERY_GID_TABLE:
      return query_gid_table(header);
    default:
      return EPROTONOSUPPORT;
  }
}

int mprdma_uverbs_ioctl(void* argument) {
  int error = dispatch(argument);
  if (error != 0) {
    errno = error;
    return -1;
  }
  return 0;
}

int mprdma_preload_dup_event_pipe(int app_fd, int fds[2]) {
  if (mprdma_fd_kind(app_fd) != MPRDMA_FD_CHANNEL) {
    return ENOENT;
  }
  fds[0] = fcntl64_real()(app_fd, F_DUPFD_CLOEXEC, 0);
  fds[1] = fcntl64_real()(mprdma_fd_extra(app_fd), F_DUPFD_CLOEXEC, 0);
  if (fds[0] >= 0 && fds[1] >= 0) {
    return 0;
  }
  int error = errno;
  if (fds[0] >= 0) {
    mprdma_fd_close(fds[0]);
  }
  if (fds[1] >= 0) {
    mprdma_fd_close(fds[1]);
  }
  return error;
}

int mprdma_preload_link_version(void) {
  return MPRDMA_PRELOAD_LINK_VERSION;
}
