"""The command lines of README, and what a person does with each: one row for each kind of line."""

import dataclasses
import re

DEMO_SECONDS = 1500  # with everything to compile on a busy machine


@dataclasses.dataclass(frozen=True)
class Role:
    """What is done with the lines that match."""

    pattern: str  # of the whole line, without its comment
    # run: wait for its end. server: leave it running, and go on when it listens. client: leave it
    # running. watch: on a terminal, until Ctrl-C. last: wait for servers and clients, then run.
    # not_run: for the reason given.
    kind: str
    says: str = ""  # what has to be in its output: a regular expression
    seconds: float = 60
    root: bool = False
    why_not: str = ""


RESULT = r"65536 +\d+ "  # a row of perftest's, and how many operations were timed
MPRDMA = r"build/tools/mprdma "
ROLES = (
    Role(r"\./scripts/demo", "run", r"ok +demo\.verified", DEMO_SECONDS),
    Role(r"\./scripts/test", "not_run", why_not="this is one of its tests"),
    Role(r"(ip netns exec \w+ )?" + MPRDMA + r"run .*-- ib_write_bw( -D \d+)? (localhost|[0-9.]+)",
         "client", RESULT, 90),
    Role(MPRDMA + r"run .*-- ib_write_bw( -D \d+)?", "server", RESULT, 90),
    Role(MPRDMA + r"run -- ibv_devinfo -v", "run", r"hca_id:\s+mprdma0(.*\n)+.*PORT_ACTIVE"),
    Role(MPRDMA + r"doctor", "run", r"Ready\."),
    Role(r"man docs/man/\w+\.\d", "run", r"NAME\n +mprdma"),
    Role(r"ip (netns|link|address) add .*", "run", root=True),
    Role(r"ip -n .*", "run", root=True),
    Role(r"ip netns delete \w+", "last", root=True),
    Role(MPRDMA + r"fabric up .* --daemon", "run", r"is up: hosts h0, h1"),
    Role(MPRDMA + r"top", "watch", r"ib_write_bw"),
    Role(MPRDMA + r"fabric set \w+ (up|down)", "run"),
    Role(MPRDMA + r"fabric down", "last"),
    Role(MPRDMA + r"sim figure \w+ .*", "run", r"11a\.sound .* met", 120),
)


def blocks(text):
    """The lines of each fenced block; one that ends with a backslash goes on."""
    found = re.findall(r"^```\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [re.sub(r" *\\\n *", " ", block).splitlines() for block in found]


def role_of(line):
    """None if this is no line that the test knows how to run."""
    command = re.sub(r"\s+#.*", "", line)
    return next((role for role in ROLES if re.fullmatch(role.pattern, command)), None)
