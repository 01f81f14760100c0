"""Whether a run of rping ended well, which its exit status alone does not say.

rdma-core's rping, until its pull request 1622 (July 2025), ends its thread for events by nothing
but the end of the process: when that thread, after the last event, comes to rdma_get_cm_event()
later than the main thread closes the channel, it ends a program whose work is done with status 255.
On a busy machine that was one run in fifteen.
"""

import re

RACE_STATUS = 255
# perror() of a closed descriptor; of a freed channel, whose descriptor may be any number.
RACE = re.compile(r"rdma_get_cm_event: (Bad file descriptor|Invalid argument)\n")
DISCONNECTED = re.compile(r"(client|server) DISCONNECT EVENT\.\.\.\n")
SERVER_AT_END = "wait for RDMA_READ_ADV state 10\n"  # for the next ping, and it is disconnected


def ended_well(status, output, pings):
    """True if a side with -v and -C `pings` ended well; `output` is that of both its streams."""
    if status != RACE_STATUS or not RACE.search(output):
        return status == 0
    at_end = SERVER_AT_END in output
    # Errors are not buffered, and stand within the lines that are.
    whole = DISCONNECTED.sub("", RACE.sub("", output)).replace(SERVER_AT_END, "")
    done = f"ping data: rdma-ping-{pings - 1}: " in whole
    return done and (at_end or "server ping data" not in whole)
