"""perftest as scripts/build-perftest builds it: where its programs are, and what they report."""

import re

from hosts import Failure, Unavailable

# Directories of a build directory.
PATCHED, UPSTREAM, PLAIN = "perftest", "perftest-upstream", "perftest-plain"


def program(build, name, variant=PATCHED):
    path = build / variant / "bin" / name
    if not path.exists():
        raise Unavailable(f"there is no {path}: run scripts/build-perftest first")
    return str(path)


def _found(pattern, output, what):
    found = re.search(pattern, output, re.MULTILINE)
    if found is None:
        raise Failure(f"perftest reports no {what}:\n{output[-1000:]}")
    return found


def rates(output):
    """What --report-rates prints: of this end alone."""
    found = _found(r"^ (sender|receiver) +(\d+) +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)", output,
                   "rates")  # fmt: skip
    names = ("messages", "elapsed_s", "cpu_s", "mpps", "mpps_by_cpu")
    return {"end": found.group(1), **dict(zip(names, map(float, found.groups()[1:])))}


def marked(output):
    """What --synchronise reports: how many messages had the flag, and how many there were."""
    found = _found(r"^ Synchronise flag: on (\d+) of (\d+) messages", output, "synchronise flag")
    return int(found.group(1)), int(found.group(2))


def paths(output):
    """What --report-paths prints: a dictionary for each stream, with the bytes of its QP."""
    titles = ("window", "srtt_us", "packets", "again", "timeouts", "ecn", "late", "probes")
    streams = []
    for qpn, name, mode, used, *numbers in re.findall(
        r"^ (0x\w{6})  (requests|responses) +([\w-]+) +(\d+)" + r" +([\d.]+)" * len(titles),
        output, re.MULTILINE,
    ):  # fmt: skip
        sent = _found(rf"^ {qpn}  bytes sent (\d+), again (\d+), received (\d+)", output, "bytes")
        streams.append({
            "qpn": qpn, "stream": name, "mode": mode, "paths": int(used),
            **dict(zip(titles, map(float, numbers))),
            **dict(zip(("sent", "sent_again", "received"), map(int, sent.groups()))),
        })  # fmt: skip
    if not streams:
        raise Failure(f"perftest reports no paths:\n{output[-1000:]}")
    return streams
