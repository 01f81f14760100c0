"""What went over the device, by the counters that each process prints at its end."""

import re

from hosts import Failure

WANTED = {"MPRDMA_COUNTERS": "1"}


def bytes_sent(output):
    """The payload that each process of an output has sent, one figure a process."""
    return [int(n) for n in re.findall(r"mprdma: payload_bytes_out (\d+)", output)]


def expect_sent(outputs, processes, least):
    """So many processes have sent at least so many bytes each."""
    sent = [count for output in outputs for count in bytes_sent(output)]
    enough = sum(count >= least for count in sent)
    if enough < processes:
        raise Failure(f"{enough} of {processes} processes sent {least} bytes over the device: "
                      f"{sent}")  # fmt: skip
