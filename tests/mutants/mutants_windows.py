"""Small breakages of atomics, memory windows and shared receives in the mode `mp`.

Fields: see mutants.py.
"""

from mutants import Mutant


def _mutant(name, file, old, new, why, rebuild=(), killer="swarm"):
    return Mutant(name, file, old, new, why, tuple(rebuild) or (file,), killer)


MUTANTS = [
    # ---- Atomics
    _mutant(
        "atomic-answers-nothing",
        "responder.cpp",
        "    header.atomic_original = context.original;\n",
        "",
        "a counter that always says zero",
    ),
    _mutant(
        "atomic-result-in-the-wrong-context",
        "responder.cpp",
        ".original = &contexts_.back().original",
        ".original = &contexts_.front().original",
        "two atomics under way answer the same",
    ),
    _mutant(
        "fetch-add-adds-the-swap",
        "requester.cpp",
        "  header.atomic_swap_add = swaps ? work.swap : work.compare_add;\n",
        "  header.atomic_swap_add = work.swap;\n",
        "the wrong number is added",
    ),
    _mutant(
        "atomics-not-counted-as-outstanding",
        "requester.cpp",
        "  if (!is_answered(work.opcode) || reads_.empty()) return true;\n",
        "  if (work.opcode != WorkOpcode::kRead || reads_.empty()) return true;\n",
        "the responder runs out of contexts and refuses",
    ),
    _mutant(
        "atomic-result-starts-anew-in-each-sge",
        "sge_list.hpp",
        "    actions.placements.push({.payload_offset = done,\n",
        "    actions.placements.push({.payload_offset = 0,\n",
        "a result over several SGEs repeats its first bytes",
        ("requester_responses.cpp",),
    ),
    _mutant(
        "misaligned-atomic-executed",
        "responder.cpp",
        "  if (packet.reth.va % wire::kAtomicBytes != 0) "
        "return refuse(NackCode::kInvalidRequest);\n"
        "  uint64_t addr = 0;\n"
        "  if (!open_remote(packet.reth, kRemoteAtomic, &addr)) {\n"
        "    return refuse(NackCode::kRemoteAccessError);\n"
        "  }\n"
        "  // .. and here, where it happens: a region may lie across the words of the host's "
        "memory.\n"
        "  if (addr % wire::kAtomicBytes != 0) return refuse(NackCode::kInvalidRequest);\n",
        "  uint64_t addr = 0;\n"
        "  if (!open_remote(packet.reth, kRemoteAtomic, &addr)) {\n"
        "    return refuse(NackCode::kRemoteAccessError);\n"
        "  }\n",
        "an access over two cache lines is not atomic",
        killer="unit",
    ),
    _mutant(
        "atomic-without-a-place-for-its-result",
        "requester.cpp",
        "  if (all_open(sges_of(index).first(work.num_sge), 0, wire::kAtomicBytes, "
        "*device_.memory,\n               config_.pd, kLocalWrite)) {\n    return true;\n  }\n",
        "  return true;\n",
        "the peer's memory changes and nobody hears what it was",
        killer="unit",
    ),
    # ---- Memory windows
    _mutant(
        "send-invalidate-does-not-invalidate",
        "responder.cpp",
        "    if (packet.info().has_ieth &&\n        !device_.memory->invalidate("
        "packet.ieth_rkey, config_.pd, config_.qpn)) {\n",
        "    if (false) {\n",
        "the peer keeps access that it gave back",
    ),
    _mutant(
        "bind-ignores-the-new-key",
        "local_work.hpp",
        ".new_key = new_key,\n",
        ".new_key = work.rkey,\n",
        "the announced key opens nothing",
        ("requester_local.cpp",),
    ),
    _mutant(
        "local-work-overtakes-fences-and-draining",
        "requester_local.cpp",
        "    if (!is_local_work(work.opcode) || !may_begin(work)) return;\n",
        "    if (!is_local_work(work.opcode)) return;\n",
        "a window is closed under a READ that the fence was to protect",
        killer="unit",
    ),
    _mutant(
        "type-2-window-moves-while-bound",
        "memory_table.cpp",
        "  if (window.parent != 0) return BindError::kStillBound;\n",
        "",
        "a key that was handed out dies without an invalidation",
        killer="unit",
    ),
    _mutant(
        "type-2-window-of-another-queue-pair",
        "memory_table.hpp",
        "      if (region->kind == MemoryKind::kWindow2 && region->qpn != qpn) return false;\n",
        "",
        "every peer of the domain gets in",
        ("responder.cpp",),
        "unit",
    ),
    _mutant(
        "window-key-used-as-local-key",
        "memory_table.hpp",
        "      return region->kind == MemoryKind::kNull && translate_null(length, access, addr);\n",
        "      if (region->kind == MemoryKind::kNull) {\n"
        "        return translate_null(length, access, addr);\n      }\n",
        "an rkey reads local memory",
        ("requester.cpp",),
        "unit",
    ),
    _mutant(
        "type-2-key-as-it-is-given",
        "memory_table.cpp",
        "  unbind(slot, make_key(slot, static_cast<uint8_t>(request.new_key)));\n",
        "  unbind(slot, request.new_key);\n",
        "a window whose key names another slot is never found",
        killer="unit",
    ),
    _mutant(
        "foreign-invalidation",
        "memory_table.cpp",
        "  if (window->qpn != qpn) return false;\n",
        "",
        "one peer closes the window of another",
        killer="unit",
    ),
    _mutant(
        "window-with-the-rights-of-its-region",
        "memory_table.cpp",
        "  window.access = (request.access & kRemoteRights) | "
        "(region.access & kRelaxedOrdering);\n",
        "  window.access = region.access;\n",
        "a window for reading lets write",
        killer="unit",
    ),
    _mutant(
        "unbound-window-keeps-its-region-busy",
        "memory_table.cpp",
        "    --entries_[entries_[slot].parent].windows;\n",
        "",
        "memory that can never be deregistered",
        killer="unit",
    ),
    _mutant(
        "local-work-runs-again-in-the-other-mode",
        "qp.cpp",
        "    core_.local_work_done += c->requester().local_work_done();\n",
        "    (void)c;\n",
        "a bind runs into itself when the mode is taken back",
        killer="unit",
    ),
    _mutant(
        "closed-memory-ends-a-repeated-answer",
        "responder.cpp",
        "    if (again) return;\n",
        "",
        "an application that closes memory in time loses its connection with an acknowledgement",
        killer="unit",
    ),
    # ---- Shared receive queues
    _mutant(
        "last-wqe-before-its-completion",
        "qp.cpp",
        "  if (last_wqe_event_due_ && core_.receives.empty()) {\n",
        "  if (last_wqe_event_due_) {\n",
        "the application frees a receive that is still to complete",
        killer="unit",
    ),
    _mutant(
        "shared-receive-in-the-queue-pairs-domain",
        "responder.cpp",
        "  const uint32_t pd = receive.shared != nullptr ? receive.shared->pd : config_.pd;\n",
        "  const uint32_t pd = config_.pd;\n",
        "a SEND into a shared receive fails where domains differ",
    ),
]
