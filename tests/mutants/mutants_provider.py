"""Small breakages of the provider, which the tests of the verbs must find (tests/provider, over a
fake engine); of what it reads from the environment, its unit tests.

Fields: see mutants.py; files are of providers/mprdma/. libibverbs loads the broken provider as it
does the right one. The tests of what objects leave behind (Leak), which take seconds, are not run.
"""

from mutants import maker

_mutant = maker("provider-", "provider")
_facts = maker("provider-", "facts")


def _fact(name, old, new, why):
    tests = ["../../tests/unit/provider/device_facts_test.cpp"]
    return _facts(name, "device_facts.h", old, new, why, rebuild=tests)


MUTANTS = [
    # ---- Posting
    _mutant(
        "send-queue-takes-one-too-many",
        "post.c",
        "    if (producer - sq->consumer_seen >= sq->depth) {\n      return",
        "    if (producer - sq->consumer_seen > sq->depth) {\n      return",
        "a full queue overwrites the oldest request that has not begun",
    ),
    _mutant(
        "receive-queue-takes-one-too-many",
        "post.c",
        "  return producer - rq->consumer_seen < rq->depth;\n",
        "  return producer - rq->consumer_seen <= rq->depth;\n",
        "a message is written into the buffer of another receive",
    ),
    _mutant(
        "inline-pieces-beyond-the-slot",
        "post.c",
        "if (length > qp->sq.max_inline - used) {",
        "if (length > qp->sq.max_inline) {",
        "two pieces that fit alone overwrite the next request",
    ),
    _mutant(
        "one-segment-too-many",
        "post.c",
        "(uint32_t)wr->num_sge > qp->sq.max_sge) {",
        "(uint32_t)wr->num_sge > qp->sq.max_sge + 1) {",
        "a list of segments runs into the next request",
    ),
    _mutant(
        "message-of-any-length",
        "post.c",
        "  return total <= MPRDMA_ABI_MESSAGE_BYTES_MAX ? 0 : EINVAL;\n",
        "  return 0;\n",
        "a request of more than 1 GiB ends its queue pair instead of failing",
    ),
    _mutant(
        "posts-before-rts",
        "post.c",
        "state == IBV_QPS_INIT || state == IBV_QPS_RTR ? EINVAL",
        "state == IBV_QPS_INIT ? EINVAL",
        "a program that connects in a wrong order works here, and on no adapter",
    ),
    _mutant(
        "atomic-write-in-pieces",
        "post.c",
        "wqe->num_sge == 1 && wr->sg_list[0].length == sizeof(uint64_t)",
        "wr->sg_list[0].length == sizeof(uint64_t)",
        "a request of two segments ends its queue pair instead of failing",
    ),
    # ---- Completions and events
    _mutant(
        "solicited-takes-back-any",
        "cq.c",
        "!solicited_only || __atomic_load_n(&cq->next_armed, __ATOMIC_ACQUIRE) != 0;",
        "!solicited_only;",
        "a program that asked for any completion sleeps for ever",
    ),
    _mutant(
        "resized-queue-is-not-armed",
        "cq.c",
        "  dbr->arm = cq->dbr->arm;\n",
        "",
        "a program that resized its queue before it slept sleeps for ever",
    ),
    _mutant(
        "reset-keeps-completions",
        "qp_modify.c",
        "    mprdma_qp_purge_completions(qp);\n",
        "",
        "a connection gets the completions of the one before it",
    ),
    # ---- What may be asked for
    _mutant(
        "path-mtu-above-that-of-the-port",
        "qp_modify.c",
        "(mtu > 0 && mtu <= context->facts.mtu_bytes)",
        "mtu > 0",
        "a connection is made whose packets are lost",
    ),
    _mutant(
        "peer-writes-where-we-may-not",
        "mr.c",
        "return remote_changes && (access & IBV_ACCESS_LOCAL_WRITE) == 0 ? EINVAL : 0;",
        "(void)remote_changes;\n  return 0;",
        "a peer's write ends the process, whose memory is read-only",
    ),
    _mutant(
        "window-with-any-key",
        "mw.c",
        "  rkey = (mw->rkey & ~0xffu) | (rkey & 0xffu);\n",
        "",
        "a window has the key of other memory",
    ),
    # ---- The environment
    _fact(
        "device-has-a-group-address",
        " || (byte[0] & 1u) != 0",
        "",
        "frames of one device go to all",
    ),
    _fact(
        "prefix-of-more-than-an-address",
        " || bits > 32",
        "",
        "the kernel refuses the interface, and nobody says why",
    ),
    _fact(
        "eui-64-unmodified",
        "(uint8_t)(mac[0] ^ 2u)",
        "mac[0]",
        "the link-local GID is not the address that the kernel derives",
    ),
    _fact(
        "name-without-room-for-its-end",
        "length < MPRDMA_FACTS_NAME_MAX &&",
        "length <= MPRDMA_FACTS_NAME_MAX &&",
        "a long name of the device overwrites that of its interface",
    ),
    _fact(
        "interface-without-room-for-its-end",
        "strlen(netdev) >= sizeof(facts->netdev)",
        "strlen(netdev) > sizeof(facts->netdev)",
        "a long name of the interface overwrites the device's MAC address",
    ),
]
