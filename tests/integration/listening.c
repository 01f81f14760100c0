/* Preloaded into programs of rdma_cm, whose servers no table of the kernel shows: a server says
 * that it listens, and a client can be made to wait for that.
 *
 *   TEST_LISTENS=FILE         a byte is appended to FILE for each rdma_listen() that succeeded
 *   TEST_AWAITS_LISTENS=FILE  the N-th rdma_connect() of the process waits for the N-th byte in
 * FILE
 *
 * rsockets call both functions by librdmacm's own table of symbols, so they are met here, too. */
#include <dlfcn.h>
#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WAIT_MS = 60000 };

int rdma_listen(struct rdma_cm_id* id, int backlog) {
  static int (*next)(struct rdma_cm_id*, int);
  if (!next) *(void**)&next = dlsym(RTLD_NEXT, "rdma_listen");
  const int result = next(id, backlog);
  const char* path = getenv("TEST_LISTENS");
  if (result || !path) return result;
  const int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0 || write(file, "l", 1) != 1) abort(); /* nobody would ever come */
  close(file);
  return result;
}

int rdma_connect(struct rdma_cm_id* id, struct rdma_conn_param* param) {
  static int (*next)(struct rdma_cm_id*, struct rdma_conn_param*);
  static int calls;
  if (!next) *(void**)&next = dlsym(RTLD_NEXT, "rdma_connect");
  const char* path = getenv("TEST_AWAITS_LISTENS");
  const int number = __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
  struct stat found;
  for (int ms = 0; path && ms < WAIT_MS; ms++) {
    if (stat(path, &found) == 0 && found.st_size >= number) break;
    usleep(1000);
  }
  return next(id, param);
}
