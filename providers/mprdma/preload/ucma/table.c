/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbers that stand for files, ids and groups. */
#include "providers/mprdma/preload/ucma/ucma.h"

uint32_t mprdma_ucma_table_add(struct ucma_table* table, void* object) {
  if (table->room == 0 || table->next > UCMA_HANDLE_MAX || table->next >= table->room) {
    uint32_t room = table->room == 0 ? 64 : table->room * 2;
    if (room <= UCMA_HANDLE_MAX + 1) {
      void** slots = realloc(table->slots, room * sizeof(*slots));
      if (slots != NULL) {
        memset(slots + table->room, 0, (room - table->room) * sizeof(*slots));
        table->slots = slots;
        table->next = table->room;
        table->room = room;
      }
    }
  }
  /* The search continues from the last number, so that a number rests before it is used again. */
  for (uint32_t i = 0; i < table->room; i++) {
    uint32_t handle = (table->next + i) % table->room;
    if (handle != 0 && table->slots[handle] == NULL) {
      table->slots[handle] = object;
      table->next = handle + 1;
      return handle;
    }
  }
  return 0;
}

void* mprdma_ucma_table_find(const struct ucma_table* table, uint32_t handle) {
  return handle < table->room ? table->slots[handle] : NULL;
}

void mprdma_ucma_table_remove(struct ucma_table* table, uint32_t handle) {
  table->slots[handle] = NULL;
}
