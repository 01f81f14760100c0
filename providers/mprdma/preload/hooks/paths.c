/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which paths are ours. Only the class directories themselves (so that they can be listed with our
 * device in them) and what lies below our own device are redirected; the files of the host's real
 * devices are left to the kernel.
 */
#include <stdio.h>
#include <unistd.h>

#include "providers/mprdma/preload/preload.h"

/* If `path` goes on with the component `name`, returns what follows it, else NULL. Skips doubled
 * slashes and "." components. */
static const char* after_component(const char* path, const char* name) {
  if (path == NULL || *path != '/') {
    return NULL;
  }
  while (*path == '/' || (path[0] == '.' && (path[1] == '/' || path[1] == '\0'))) {
    path++;
  }
  size_t length = strlen(name);
  if (strncmp(path, name, length) != 0 || (path[length] != '/' && path[length] != '\0')) {
    return NULL;
  }
  return path + length;
}

static bool names_nothing(const char* rest) {
  return rest[strspn(rest, "/.")] == '\0';
}

static void join(struct mprdma_path* out, const char* root, const char* middle, const char* rest) {
  int length = snprintf(out->buffer, sizeof(out->buffer), "%s%s%s", root, middle, rest);
  if (length > 0 && (size_t)length < sizeof(out->buffer)) {
    out->kind = MPRDMA_PATH_TREE;
    out->real = out->buffer;
  }
}

/* `rest` follows the class directory `middle`; `ours` and `also` are its entries that are ours. */
static void redirect(struct mprdma_path* out, const char* middle, const char* rest,
                     const char* ours, const char* also) {
  const struct mprdma_tree* tree = mprdma_tree_get();
  if (tree == NULL) {
    return;
  }
  if (names_nothing(rest) || after_component(rest, ours) != NULL ||
      (also != NULL && after_component(rest, also) != NULL)) {
    join(out, tree->root, middle, rest);
    return;
  }
  const char* real = mprdma_real_sysfs();
  if (strcmp(real, "/sys") != 0 && strncmp(middle, "/sys/", 5) == 0) {
    join(out, real, middle + 4, rest);
  }
}

static void resolve_dev(const char* rest, struct mprdma_path* out) {
  const struct mprdma_tree* tree = mprdma_tree_get();
  if (tree == NULL) {
    return;
  }
  if (names_nothing(rest)) {
    join(out, tree->root, "/dev/infiniband", rest);
    return;
  }
  for (enum mprdma_path_kind kind = MPRDMA_PATH_UVERBS; kind <= MPRDMA_PATH_RDMA_CM; kind++) {
    const char* after = after_component(rest, mprdma_path_device(kind));
    if (after != NULL && *after == '\0') {
      out->kind = kind;
      out->real = "/dev/null";
      return;
    }
  }
  const char* real = mprdma_real_dev();
  if (strcmp(real, "/dev") != 0) {
    join(out, real, "/infiniband", rest);
  }
}

/* A host's own connection manager is hidden: the one device that librdmacm finds is ours. */
static void resolve_sys(const char* rest, struct mprdma_path* out) {
  const char* class_dir = after_component(rest, "class");
  const char* devices = after_component(class_dir, "infiniband");
  const char* verbs = after_component(class_dir, "infiniband_verbs");
  const char* cm = after_component(after_component(class_dir, "misc"), "rdma_cm");
  if ((devices == NULL && verbs == NULL && cm == NULL) || mprdma_preload_facts() == NULL) {
    return;
  }
  const struct mprdma_tree* tree = mprdma_tree_get();
  if (devices != NULL) {
    redirect(out, "/sys/class/infiniband", devices, mprdma_preload_facts()->name, NULL);
  } else if (verbs != NULL && tree != NULL) {
    redirect(out, "/sys/class/infiniband_verbs", verbs, tree->uverbs_name, "abi_version");
  } else if (cm != NULL && tree != NULL) {
    join(out, tree->root, "/sys/class/misc/rdma_cm", cm);
  }
}

void mprdma_path_resolve(const char* path, struct mprdma_path* out) {
  out->kind = MPRDMA_PATH_PLAIN;
  out->real = path;
  if (path == NULL || path[0] != '/' || mprdma_unhooked > 0) {
    return;
  }
  const char* rest = after_component(path, "sys");
  if (rest != NULL) {
    resolve_sys(rest, out);
    return;
  }
  rest = after_component(after_component(path, "dev"), "infiniband");
  if (rest != NULL && mprdma_preload_facts() != NULL) {
    resolve_dev(rest, out);
  }
}

void mprdma_path_unresolve(char* path) {
  if (strstr(path, "/" MPRDMA_TREE_PREFIX) == NULL) {
    return; /* cannot be ours: do not build a tree only to find that out */
  }
  const struct mprdma_tree* tree = mprdma_preload_facts() != NULL ? mprdma_tree_get() : NULL;
  if (tree == NULL) {
    return;
  }
  size_t length = strlen(tree->root);
  if (strncmp(path, tree->root, length) == 0 && path[length] == '/') {
    memmove(path, path + length, strlen(path + length) + 1);
  }
}
