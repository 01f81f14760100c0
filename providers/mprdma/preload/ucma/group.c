/* SPDX-License-Identifier: BSD-2-Clause */
/* The multicast groups that ids have joined, and their numbers. */
#include "providers/mprdma/preload/ucma/ucma.h"

static struct ucma_table groups;

struct ucma_group* mprdma_ucma_group_new(struct ucma_id* id, uint64_t uid, const uint8_t mgid[16]) {
  struct ucma_group* group = calloc(1, sizeof(*group));
  if (group == NULL) {
    return NULL;
  }
  group->handle = mprdma_ucma_table_add(&groups, group);
  if (group->handle == 0) {
    free(group);
    return NULL;
  }
  group->uid = uid;
  group->id = id;
  memcpy(group->mgid, mgid, sizeof(group->mgid));
  group->next = id->groups;
  id->groups = group;
  return group;
}

struct ucma_group* mprdma_ucma_group_find(uint32_t handle) {
  return mprdma_ucma_table_find(&groups, handle);
}

static void unlink_group(struct ucma_id* id, const struct ucma_group* group) {
  struct ucma_group** link = &id->groups;
  while (*link != NULL && *link != group) {
    link = &(*link)->next;
  }
  if (*link == group) {
    *link = group->next;
  }
}

void mprdma_ucma_group_free(struct ucma_group* group) {
  unlink_group(group->id, group);
  mprdma_ucma_table_remove(&groups, group->handle);
  free(group);
}

void mprdma_ucma_groups_free(struct ucma_id* id) {
  while (id->groups != NULL) {
    struct ucma_group* group = id->groups;
    id->groups = group->next;
    mprdma_ucma_table_remove(&groups, group->handle);
    free(group);
  }
}

void mprdma_ucma_groups_forget(void) {
  for (uint32_t i = 0; i < groups.room; i++) {
    free(groups.slots[i]);
    groups.slots[i] = NULL;
  }
}
