/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A source of dma-bufs for pyverbs. The distribution builds pyverbs without DRM: its dmabuf_alloc()
 * always fails, and a machine of continuous integration has no graphics card. Preloaded, these take
 * its place: a memfd is what an exported buffer is to a device in software, memory behind a
 * descriptor that can be mapped. The names and meanings are pyverbs' own (pyverbs/dmabuf_alloc.h).
 */
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

struct dmabuf {
  int fd;
};

EXPORT struct dmabuf* dmabuf_alloc(uint64_t bytes, int gpu, int gtt);
EXPORT void dmabuf_free(struct dmabuf* buffer);
EXPORT int dmabuf_get_drm_fd(struct dmabuf* buffer);
EXPORT int dmabuf_get_fd(struct dmabuf* buffer);
EXPORT uint64_t dmabuf_get_offset(struct dmabuf* buffer);

struct dmabuf* dmabuf_alloc(uint64_t bytes, int gpu, int gtt) {
  (void)gpu;
  (void)gtt;
  struct dmabuf* buffer = malloc(sizeof(*buffer));
  if (buffer == NULL) {
    return NULL;
  }
  buffer->fd = memfd_create("dmabuf", MFD_CLOEXEC);
  if (buffer->fd >= 0 && ftruncate(buffer->fd, (off_t)bytes) == 0) {
    return buffer;
  }
  dmabuf_free(buffer);
  return NULL;
}

void dmabuf_free(struct dmabuf* buffer) {
  if (buffer != NULL) {
    if (buffer->fd >= 0) {
      close(buffer->fd);
    }
    free(buffer);
  }
}

/* Returns the descriptor and the offset with which the application maps the buffer. */
int dmabuf_get_drm_fd(struct dmabuf* buffer) {
  return buffer->fd;
}

uint64_t dmabuf_get_offset(struct dmabuf* buffer) {
  (void)buffer;
  return 0;
}

int dmabuf_get_fd(struct dmabuf* buffer) {
  return buffer->fd;
}
