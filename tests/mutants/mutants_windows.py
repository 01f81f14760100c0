"""Small breakages of atomics, memory windows and shared receives in the mode `mp`.

Fields: see mutants.py.
"""

from mutants import mutant

MUTANTS = [
    # ---- Atomics
    mutant(
        "atomic-answers-nothing",
        "mp/responder.cpp",
        "    header.atomic_original = context.original;\n",
        "",
        "a counter that always says zero",
    ),
    mutant(
        "atomic-result-in-the-wrong-context",
        "mp/responder.cpp",
        ".original = &contexts_.back().original",
        ".original = &contexts_.front().original",
        "two atomics under way answer the same",
    ),
    mutant(
        "fetch-add-adds-the-swap",
        "mp/requester.cpp",
        "  header.atomic_swap_add = swaps ? work.swap : work.compare_add;\n",
        "  header.atomic_swap_add = work.swap;\n",
        "the wrong number is added",
    ),
    mutant(
        "atomics-not-counted-as-outstanding",
        "work/send_queue.hpp",
        "  if (!is_answered(work.opcode) || reads_.empty()) return true;\n",
        "  if (work.opcode != WorkOpcode::kRead || reads_.empty()) return true;\n",
        "the responder runs out of contexts and refuses",
        ("mp/requester.cpp",),
    ),
    mutant(
        "atomic-result-starts-anew-in-each-sge",
        "work/sge_list.hpp",
        "    actions.placements.push({.payload_offset = done,\n",
        "    actions.placements.push({.payload_offset = 0,\n",
        "a result over several SGEs repeats its first bytes",
        ("mp/requester_responses.cpp",),
    ),
    mutant(
        "misaligned-atomic-executed",
        "work/incoming_request.hpp",
        "  if (reth.va % wire::kAtomicBytes != 0) return AtomicTarget::kMisaligned;\n"
        "  if (!open_remote(core, pd, reth, kRemoteAtomic, addr)) return "
        "AtomicTarget::kClosed;\n"
        "  // Where it happens, too: a region may lie across the words of the host's "
        "memory.\n"
        "  if (*addr % wire::kAtomicBytes != 0) return AtomicTarget::kMisaligned;\n",
        "  if (!open_remote(core, pd, reth, kRemoteAtomic, addr)) return "
        "AtomicTarget::kClosed;\n",
        "an access over two cache lines is not atomic",
        ("mp/responder.cpp",),
        killer="unit",
    ),
    mutant(
        "atomic-without-a-place-for-its-result",
        "work/send_queue.hpp",
        "  const bool open = opens(index, 0, wire::kAtomicBytes, kLocalWrite);\n",
        "  const bool open = true;\n",
        "the peer's memory changes and nobody hears what it was",
        ("mp/requester.cpp",),
        killer="unit",
    ),
    # ---- Memory windows
    mutant(
        "send-invalidate-does-not-invalidate",
        "mp/responder.cpp",
        "    if (packet.info().has_ieth &&\n        !device_.memory->invalidate("
        "packet.ieth_rkey, config_.pd, config_.qpn)) {\n",
        "    if (false) {\n",
        "the peer keeps access that it gave back",
    ),
    mutant(
        "bind-ignores-the-new-key",
        "work/local_work.hpp",
        ".new_key = Key(work.imm_or_rkey),\n",
        ".new_key = work.rkey,\n",
        "the announced key opens nothing",
        ("mp/requester.cpp",),
    ),
    mutant(
        "local-work-overtakes-fences-and-draining",
        "work/send_queue.hpp",
        "    if (!is_local_work(work.opcode) || !may_begin(work)) return;\n",
        "    if (!is_local_work(work.opcode)) return;\n",
        "a window is closed under a READ that the fence was to protect",
        ("mp/requester.cpp", "mp/mp_connection.cpp"),
        killer="unit",
    ),
    mutant(
        "type-2-window-moves-while-bound",
        "core/memory_table.cpp",
        "  if (window.parent != 0) return BindError::kStillBound;\n",
        "",
        "a key that was handed out dies without an invalidation",
        killer="unit",
    ),
    mutant(
        "type-2-window-of-another-queue-pair",
        "core/memory_table.hpp",
        "      if (region->kind == MemoryKind::kWindow2 && region->qpn != qpn) return false;\n",
        "",
        "every peer of the domain gets in",
        ("mp/responder.cpp",),
        "unit",
    ),
    mutant(
        "window-key-used-as-local-key",
        "core/memory_table.hpp",
        "      return region->kind == MemoryKind::kNull && translate_null(length, access, addr);\n",
        "      if (region->kind == MemoryKind::kNull) {\n"
        "        return translate_null(length, access, addr);\n      }\n",
        "an rkey reads local memory",
        ("mp/requester.cpp",),
        "unit",
    ),
    mutant(
        "type-2-key-as-it-is-given",
        "core/memory_table.cpp",
        "  unbind(slot, make_key(slot, static_cast<uint8_t>(request.new_key.value())));\n",
        "  unbind(slot, request.new_key);\n",
        "a window whose key names another slot is never found",
        killer="unit",
    ),
    mutant(
        "foreign-invalidation",
        "core/memory_table.cpp",
        "  if (window->qpn != qpn) return false;\n",
        "",
        "one peer closes the window of another",
        killer="unit",
    ),
    mutant(
        "window-with-the-rights-of-its-region",
        "core/memory_table.cpp",
        "  window.access = (request.access & kRemoteRights) | "
        "(region.access & kRelaxedOrdering);\n",
        "  window.access = region.access;\n",
        "a window for reading lets write",
        killer="unit",
    ),
    mutant(
        "unbound-window-keeps-its-region-busy",
        "core/memory_table.cpp",
        "    --entries_[entries_[slot].parent].windows;\n",
        "",
        "memory that can never be deregistered",
        killer="unit",
    ),
    mutant(
        "local-work-runs-again-in-the-other-mode",
        "qp.cpp",
        "    core_.local_work_done += c->requester().local_work_done();\n",
        "    (void)c;\n",
        "a bind runs into itself when the mode is taken back",
        killer="unit",
    ),
    mutant(
        "closed-memory-ends-a-repeated-answer",
        "mp/responder.cpp",
        "    if (retransmission) return;\n",
        "",
        "an application that closes memory in time loses its connection with an acknowledgement",
        killer="unit",
    ),
    # ---- Shared receive queues
    mutant(
        "last-wqe-before-its-completion",
        "qp.cpp",
        "  if (last_wqe_event_due_ && core_.receives.empty()) {\n",
        "  if (last_wqe_event_due_) {\n",
        "the application frees a receive that is still to complete",
        killer="unit",
    ),
    mutant(
        "shared-receive-in-the-queue-pairs-domain",
        "work/qp_core.hpp",
        "    return shared != nullptr ? shared->pd : config.pd;\n",
        "    return config.pd;\n",
        "a SEND into a shared receive fails where domains differ",
        ("mp/responder.cpp",),
    ),
]
