"""What the address, undefined-behaviour and leak sanitizers say of libraries of ours in a process
that is not ours: the interpreter leaks as well, and nobody asked for that."""

import re

OURS = re.compile(r"libmprdma|/providers/mprdma/|/dataplane/|/transport/")
OPTIONS = "halt_on_error=1:log_path={log}:malloc_context_size=12:fast_unwind_on_malloc=0"


class Reports:
    """Has the processes write reports into a directory, and reads them there."""

    def __init__(self, directory, runtime=None):
        self._directory = directory
        self._runtime = runtime  # the sanitizers' shared library, or None: not sanitized

    def environment(self, environment):
        if self._runtime is None:
            return environment
        self._directory.mkdir()
        options = OPTIONS.format(log=self._directory / "report")
        return dict(
            environment,
            LD_PRELOAD=f"{self._runtime} {environment['LD_PRELOAD']}",
            PYTHONMALLOC="malloc",
            ASAN_OPTIONS=f"detect_leaks=1:{options}",
            UBSAN_OPTIONS=f"print_stacktrace=1:{options}",
            LSAN_OPTIONS="exitcode=0",
        )

    def take(self):
        """The paragraphs about us since the last time."""
        text = ""
        for path in sorted(self._directory.glob("report*")):
            text += path.read_text(errors="replace")
            path.unlink()
        return "\n\n".join(filter(OURS.search, text.split("\n\n")))
