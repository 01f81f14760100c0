/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC domains and what is shared in them. Opens of one file in this process name one domain; a
 * domain is not shared with other processes (there each has an engine of its own). An XRC_RECV
 * queue pair can be opened again by its number (qp_open.c): the handles share it, each gets its
 * events, and the last one that is destroyed takes it along.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "providers/mprdma/operations.h"

static pthread_mutex_t xrc_lock = PTHREAD_MUTEX_INITIALIZER;

static void after_fork_in_child(void) {
  pthread_mutex_init(&xrc_lock, NULL);
}
__attribute__((constructor)) static void watch_forks(void) {
  pthread_atfork(NULL, NULL, after_fork_in_child);
}

/* ---- Domains ---- */

static bool is_same_file(struct mprdma_object* object, void* wanted) {
  const struct stat* file = wanted;
  const struct mprdma_xrc_domain* domain =
      MPRDMA_CONTAINER(object, struct mprdma_xrc_domain, object);
  return domain->has_inode && domain->device == file->st_dev && domain->inode == file->st_ino &&
         mprdma_object_is_here(object);
}

static int make_domain(struct mprdma_context* context, const struct stat* file,
                       struct mprdma_xrc_domain** out) {
  struct mprdma_abi_handle made = {0};
  struct mprdma_xrc_domain* domain = calloc(1, sizeof(*domain));
  if (domain == NULL) {
    return ENOMEM;
  }
  int error = mprdma_execute(context, MPRDMA_ABI_ALLOC_XRCD, NULL, 0, &made, sizeof(made));
  if (error != 0) {
    free(domain);
    return error;
  }
  if (file != NULL) {
    domain->has_inode = true;
    domain->device = file->st_dev;
    domain->inode = file->st_ino;
  }
  mprdma_object_add(&domain->object, MPRDMA_OBJECT_XRCD, context, made.handle);
  *out = domain;
  return 0;
}

/* Finds or makes the domain; errors are those of the kernel. Requires xrc_lock. */
static int find_or_make(struct mprdma_context* context, const struct ibv_xrcd_init_attr* attr,
                        struct mprdma_xrc_domain** out) {
  struct stat file;
  if (attr->fd == -1) {
    return (attr->oflags & O_CREAT) != 0 ? make_domain(context, NULL, out) : EINVAL;
  }
  if (fstat(attr->fd, &file) != 0) {
    return EBADF;
  }
  struct mprdma_object* object = mprdma_object_find(MPRDMA_OBJECT_XRCD, is_same_file, &file);
  if (object == NULL) {
    return (attr->oflags & O_CREAT) != 0 ? make_domain(context, &file, out) : EAGAIN;
  }
  if ((attr->oflags & O_EXCL) != 0) {
    return EINVAL;
  }
  *out = MPRDMA_CONTAINER(object, struct mprdma_xrc_domain, object);
  return 0;
}

static int open_domain(struct mprdma_context* context, const struct ibv_xrcd_init_attr* attr,
                       struct mprdma_xrcd* xrcd) {
  const uint32_t kNeeded = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  if (attr->comp_mask != kNeeded || (attr->oflags & ~(O_CREAT | O_EXCL)) != 0) {
    return EINVAL;
  }
  int error = mprdma_engine_link_connect(context);
  if (error == 0 && !mprdma_has_feature(context, MPRDMA_ABI_FEATURE_XRC)) {
    error = EOPNOTSUPP;
  }
  if (error != 0) {
    return error;
  }
  xrcd->ibv.context = &context->verbs.context;
  pthread_mutex_lock(&xrc_lock);
  error = find_or_make(context, attr, &xrcd->domain);
  if (error == 0) {
    xrcd->next_open = xrcd->domain->opens;
    xrcd->domain->opens = xrcd;
  }
  pthread_mutex_unlock(&xrc_lock);
  return error;
}

struct ibv_xrcd* mprdma_open_xrcd(struct ibv_context* context, struct ibv_xrcd_init_attr* attr) {
  struct mprdma_xrcd* xrcd = calloc(1, sizeof(*xrcd));
  int error = xrcd != NULL ? open_domain(to_mprdma_context(context), attr, xrcd) : ENOMEM;
  if (error != 0) {
    free(xrcd);
    errno = error;
    return NULL;
  }
  return &xrcd->ibv;
}

int mprdma_close_xrcd(struct ibv_xrcd* ibv) {
  struct mprdma_xrcd* xrcd = to_mprdma_xrcd(ibv);
  struct mprdma_xrc_domain* domain = xrcd->domain;
  int error = 0;
  if (mprdma_in_use(&xrcd->users)) {
    return EBUSY;
  }
  pthread_mutex_lock(&xrc_lock);
  bool last = domain->opens == xrcd && xrcd->next_open == NULL;
  if (last) {
    error = mprdma_object_destroy(&domain->object);
  }
  if (error == 0) {
    struct mprdma_xrcd** link = &domain->opens;
    while (*link != xrcd) {
      link = &(*link)->next_open;
    }
    *link = xrcd->next_open;
  }
  if (error == 0 && last) {
    free(domain);
  }
  pthread_mutex_unlock(&xrc_lock);
  if (error == 0) {
    free(xrcd);
  }
  return error;
}

/* ---- Shared queue pairs ---- */

static void add_handle(struct mprdma_shared_qp* shared, struct mprdma_qp* qp) {
  qp->shared = shared;
  qp->object = &shared->object;
  qp->attr = &shared->attr;
  pthread_mutex_lock(&shared->lock);
  qp->next_handle = shared->handles;
  shared->handles = qp;
  pthread_mutex_unlock(&shared->lock);
}

/* Removes a handle; returns whether it was the last one. */
static bool remove_handle(struct mprdma_shared_qp* shared, const struct mprdma_qp* qp) {
  pthread_mutex_lock(&shared->lock);
  struct mprdma_qp** link = &shared->handles;
  while (*link != qp) {
    link = &(*link)->next_handle;
  }
  *link = qp->next_handle;
  bool last = shared->handles == NULL;
  if (!last && shared->object.context == qp->context) {
    shared->object.context = shared->handles->context; /* outlives its maker */
  }
  pthread_mutex_unlock(&shared->lock);
  return last;
}

/* Removes the handles of a closed context. Handles of other contexts stay, and one of these
 * contexts keeps the QP. */
static void leave_shared(struct mprdma_shared_qp* shared, const struct mprdma_context* leaving) {
  struct mprdma_context* heir = NULL;
  for (struct mprdma_qp* qp = shared->handles; qp != NULL && heir == NULL; qp = qp->next_handle) {
    heir = qp->context != leaving ? qp->context : NULL;
  }
  if (heir == NULL) {
    return; /* the QP is destroyed with the leftovers */
  }
  pthread_mutex_lock(&shared->lock);
  struct mprdma_qp** link = &shared->handles;
  while (*link != NULL) {
    if ((*link)->context == leaving) {
      *link = (*link)->next_handle;
    } else {
      link = &(*link)->next_handle;
    }
  }
  if (shared->object.context == leaving) {
    shared->object.context = heir;
  }
  pthread_mutex_unlock(&shared->lock);
}

/* Called for each domain, with the registry locked. */
static bool leave_domain(struct mprdma_object* object, void* opaque) {
  struct mprdma_context* leaving = opaque;
  const struct mprdma_xrc_domain* domain =
      MPRDMA_CONTAINER(object, struct mprdma_xrc_domain, object);
  const struct mprdma_xrcd* open = domain->opens;
  while (open != NULL && open->ibv.context == &leaving->verbs.context) {
    open = open->next_open;
  }
  if (object->context == leaving && open != NULL) {
    object->context = to_mprdma_context(open->ibv.context);
  }
  for (struct mprdma_shared_qp* shared = domain->qps; shared != NULL; shared = shared->next) {
    leave_shared(shared, leaving);
  }
  return false;
}

void mprdma_xrc_leave(struct mprdma_context* context) {
  pthread_mutex_lock(&xrc_lock);
  (void)mprdma_object_find(MPRDMA_OBJECT_XRCD, leave_domain, context);
  pthread_mutex_unlock(&xrc_lock);
}

static void free_shared(struct mprdma_shared_qp* shared) {
  pthread_mutex_destroy(&shared->lock);
  free(shared);
}

int mprdma_share_qp(struct mprdma_qp* qp) {
  struct mprdma_shared_qp* shared = calloc(1, sizeof(*shared));
  if (shared == NULL) {
    return ENOMEM;
  }
  pthread_mutex_init(&shared->lock, NULL);
  shared->domain = qp->xrcd->domain;
  add_handle(shared, qp);
  return 0;
}

void mprdma_unshare_qp(struct mprdma_qp* qp) {
  free_shared(qp->shared);
}

void mprdma_shared_qp_is_made(struct mprdma_qp* qp, uint32_t qpn) {
  struct mprdma_shared_qp* shared = qp->shared;
  pthread_mutex_lock(&xrc_lock);
  shared->qpn = qpn;
  shared->next = shared->domain->qps;
  shared->domain->qps = shared;
  pthread_mutex_unlock(&xrc_lock);
}

static void forget_shared(struct mprdma_shared_qp* shared) {
  struct mprdma_shared_qp** link = &shared->domain->qps;
  while (*link != NULL && *link != shared) {
    link = &(*link)->next;
  }
  if (*link != NULL) {
    *link = shared->next;
  }
}

static bool is_only_handle(struct mprdma_shared_qp* shared) {
  pthread_mutex_lock(&shared->lock);
  bool only = shared->handles->next_handle == NULL;
  pthread_mutex_unlock(&shared->lock);
  return only;
}

int mprdma_close_shared_qp(struct mprdma_qp* qp) {
  struct mprdma_shared_qp* shared = qp->shared;
  int error = 0;
  pthread_mutex_lock(&xrc_lock); /* nobody opens it meanwhile */
  if (is_only_handle(shared)) {
    error = mprdma_object_destroy(&shared->object);
    if (error == 0) {
      forget_shared(shared);
    }
  }
  bool last = error == 0 && remove_handle(shared, qp);
  pthread_mutex_unlock(&xrc_lock);
  if (last) {
    free_shared(shared);
  }
  return error;
}

int mprdma_join_shared_qp(struct mprdma_qp* qp, const struct mprdma_xrc_domain* domain,
                          uint32_t qpn) {
  pthread_mutex_lock(&xrc_lock);
  struct mprdma_shared_qp* shared = domain->qps;
  while (shared != NULL && shared->qpn != qpn) {
    shared = shared->next;
  }
  bool found = shared != NULL && mprdma_object_is_here(&shared->object);
  if (found) {
    add_handle(shared, qp);
  }
  pthread_mutex_unlock(&xrc_lock);
  return found ? 0 : EINVAL;
}
