"""Small breakages of LocalPort, each of which its unit tests must find.

Fields: see mutants.py; files are of dataplane/port/.

None of its fences is here. Without the full fence of publish() or of arm(), the test
LocalPortWakeup.FrameThatLeavesWhileThePeerArmsIsFoundOrWakesIt fails where both of its threads have
a core, and may pass on a machine that is busy with other things, as with the next mutant. The
fences of put_beside(), take_beside() and LentPayload::still_stands() order stores among stores, and
loads among loads: on x86-64 only the compiler could exchange these, and gcc leaves atomic accesses
where they are, so no test there can miss the fences. That of take_back() stands before whatever the
application stores next, where x86-64 keeps the order without it. The thread sanitizer does not know
fences.
"""

from mutants import maker

_mutant = maker("port-", "port")

MUTANTS = [
    # ---- Wake-ups
    _mutant(
        "sleeps-though-a-frame-waits",
        "local_port.cpp",
        "  if (rx_waiting() == 0 && !returned) return true;\n",
        "  if (!returned) return true;\n",
        "a frame that came before waits for the next one",
    ),
    _mutant(
        "starved-but-not-woken-for-room",
        "local_port_send.cpp",
        "  if (!frames_wait && (wakeup & 1) == 0) return;\n",
        "  if (!frames_wait) return;\n",
        "a sender that waits for room sleeps for ever",
    ),
    # ---- Payloads that are lent
    _mutant(
        "nothing-is-taken-back",
        "local_port_send.cpp",
        "LentPayload::set_ticket(lent_at(slot), 0);",
        "(void)slot;",
        "the peer reads what the application wrote after its request had failed",
    ),
    _mutant(
        "takes-back-from-every-lender",
        "local_port_send.cpp",
        "return lender_[slot] == lender;",
        "return lender_[slot] == lender || true;",
        "a queue pair that ends costs all others their packets",
    ),
]
