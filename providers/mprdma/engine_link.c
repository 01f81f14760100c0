/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The embedded engine: libmprdma-engine.so, loaded when first needed and never unloaded (its
 * threads may outlive a context), and the connection to it: one for all contexts of a process, so
 * that they can share objects (imports, XRC domains); another in a child after fork, because the
 * parent's engine stays with the parent.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "providers/mprdma/operations.h"
#include "providers/mprdma/preload_link.h"

struct engine_library {
  int (*connect)(const struct mprdma_abi_client* client, struct mprdma_abi_channel* channel);
  void (*disconnect)(struct mprdma_abi_channel* channel);
  void (*limits)(struct mprdma_abi_device_info* info);
};

static struct engine_library library;
static pthread_once_t library_once = PTHREAD_ONCE_INIT;
static bool library_loaded;

static void* open_library(void) {
  const char* named = getenv("MPRDMA_ENGINE_LIBRARY");
  if (named != NULL && named[0] != '\0') {
    return dlopen(named, RTLD_NOW | RTLD_LOCAL);
  }
  /* The engine is beside the provider when installed; in the build tree, in a directory of its
   * own. */
  static const char* const kBeside[] = {"libmprdma-engine.so", "../libmprdma-engine.so",
                                        "../../dataplane/libmprdma-engine.so"};
  Dl_info self;
  static const int kAnchor = 0;
  if (dladdr(&kAnchor, &self) != 0 && self.dli_fname != NULL) {
    const char* slash = strrchr(self.dli_fname, '/');
    int directory = slash != NULL ? (int)(slash - self.dli_fname) : 0;
    for (size_t i = 0; slash != NULL && i < sizeof(kBeside) / sizeof(kBeside[0]); i++) {
      char path[4096];
      snprintf(path, sizeof(path), "%.*s/%s", directory, self.dli_fname, kBeside[i]);
      if (access(path, R_OK) == 0) {
        return dlopen(path, RTLD_NOW | RTLD_LOCAL);
      }
    }
  }
  return dlopen("libmprdma-engine.so", RTLD_NOW | RTLD_LOCAL);
}

static void load_library(void) {
  void* handle = open_library();
  if (handle == NULL) {
    fprintf(stderr, "mprdma: cannot load the engine: %s; set MPRDMA_ENGINE_LIBRARY to its path\n",
            dlerror());
    return;
  }
  void* connect = dlsym(handle, "mprdma_engine_connect");
  void* disconnect = dlsym(handle, "mprdma_engine_disconnect");
  void* limits = dlsym(handle, "mprdma_engine_limits");
  if (connect == NULL || disconnect == NULL || limits == NULL) {
    fprintf(stderr, "mprdma: the engine's library does not have the entry points of engine.h\n");
    return;
  }
  memcpy(&library.connect, &connect, sizeof(connect));
  memcpy(&library.disconnect, &disconnect, sizeof(disconnect));
  memcpy(&library.limits, &limits, sizeof(limits));
  library_loaded = true;
}

static int need_library(void) {
  pthread_once(&library_once, load_library);
  return library_loaded ? 0 : ENOENT;
}

int mprdma_engine_link_limits(struct mprdma_abi_device_info* info) {
  int error = need_library();
  if (error == 0) {
    memset(info, 0, sizeof(*info));
    library.limits(info);
  }
  return error;
}

static pthread_mutex_t link_lock = PTHREAD_MUTEX_INITIALIZER;
static struct mprdma_abi_channel link_channel; /* valid while link_pid is this process */
static pid_t link_pid;
static uint32_t link_users; /* contexts */

/* A thread of the parent may have held the lock. */
static void after_fork_in_child(void) {
  pthread_mutex_init(&link_lock, NULL);
}
__attribute__((constructor)) static void watch_forks(void) {
  pthread_atfork(NULL, NULL, after_fork_in_child);
}

/* In a child after fork, asynchronous events of the parent are not ours: the descriptor numbers get
 * a pipe of the child's own. */
static int renew_async(struct mprdma_context* context) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) {
    return errno;
  }
  int flags = fcntl(fds[1], F_GETFL);
  int failed = fcntl(fds[1], F_SETFL, flags | O_NONBLOCK) != 0 ||
               dup3(fds[0], context->verbs.context.async_fd, O_CLOEXEC) < 0 ||
               dup3(fds[0], context->async.read_fd, O_CLOEXEC) < 0 ||
               dup3(fds[1], context->async.write_fd, O_CLOEXEC) < 0;
  int error = failed ? errno : 0;
  close(fds[0]);
  close(fds[1]);
  if (error == 0) {
    /* A thread of the parent may have held the lock; the backlog belongs to the parent. */
    pthread_mutex_init(&context->async.lock, NULL);
    context->async.backlog_records = 0;
  }
  return error;
}

/* Opens the pipe that libibverbs made for an imported device. */
static int open_imported_async(struct mprdma_context* context) {
  int fds[2];
  if (mprdma_preload_dup_event_pipe == NULL) {
    return EOPNOTSUPP;
  }
  int error = mprdma_preload_dup_event_pipe(context->verbs.context.async_fd, fds);
  return error != 0 ? error
                    : mprdma_event_queue_init(&context->async, fds[0], fds[1],
                                              sizeof(struct mprdma_async_record));
}

int mprdma_engine_link_open(const struct mprdma_abi_client* client,
                            struct mprdma_abi_channel* channel) {
  int error = need_library();
  if (error != 0) {
    return error;
  }
  memset(channel, 0, sizeof(*channel));
  error = library.connect(client, channel);
  if (error == 0 && channel->abi_major != MPRDMA_ABI_MAJOR) {
    fprintf(stderr, "mprdma: the engine speaks queue ABI %u, this provider %u\n",
            channel->abi_major, MPRDMA_ABI_MAJOR);
    library.disconnect(channel);
    error = EPROTONOSUPPORT;
  }
  return error;
}

void mprdma_engine_link_close(struct mprdma_abi_channel* channel) {
  library.disconnect(channel);
}

static int connect_process(void) {
  const struct mprdma_abi_client client = {.abi_major = MPRDMA_ABI_MAJOR,
                                           .abi_minor = MPRDMA_ABI_MINOR,
                                           .context = NULL,
                                           .on_event = mprdma_on_event};
  mprdma_port_events_forget_all();
  link_users = 0;
  int error = mprdma_engine_link_open(&client, &link_channel);
  if (error == 0) {
    link_pid = getpid();
  }
  return error;
}

static int connect_locked(struct mprdma_context* context) {
  pid_t pid = getpid();
  if (context->engine_pid == pid) {
    return 0;
  }
  int error = need_library();
  if (error == 0 && context->async.read_fd < 0) {
    error = open_imported_async(context);
  } else if (error == 0 && context->engine_pid != 0) {
    error = renew_async(context);
  }
  if (error == 0 && link_pid != pid) {
    error = connect_process();
  }
  if (error == 0) {
    link_users++;
    context->channel = link_channel;
    mprdma_port_events_begin(context);
    __atomic_store_n(&context->engine_pid, pid, __ATOMIC_RELEASE);
  }
  return error;
}

int mprdma_engine_link_connect(struct mprdma_context* context) {
  if (__atomic_load_n(&context->engine_pid, __ATOMIC_ACQUIRE) == getpid()) {
    return 0;
  }
  pthread_mutex_lock(&link_lock);
  int error = connect_locked(context);
  pthread_mutex_unlock(&link_lock);
  return error;
}

void mprdma_engine_link_disconnect(struct mprdma_context* context) {
  pthread_mutex_lock(&link_lock);
  if (context->engine_pid == getpid()) {
    mprdma_port_events_end(context);
    if (--link_users == 0) {
      library.disconnect(&link_channel);
      link_pid = 0;
    }
  }
  context->engine_pid = 0;
  pthread_mutex_unlock(&link_lock);
}

int mprdma_execute(struct mprdma_context* context, uint32_t command, const void* in,
                   size_t in_bytes, void* out, size_t out_bytes) {
  return context->channel.execute(context->channel.engine, command, in, in_bytes, out, out_bytes);
}
