"""What a command says of its progress: a bar that is overwritten on a terminal, lines in a log."""

import os
import shutil
import sys
import time

LINE_EVERY_S = 15  # in a log, of one and the same step


def left(seconds):
    """How much longer it takes, as a person would say it."""
    if seconds < 10:
        return "under 10 s left"
    if seconds < 90:
        return f"about {round(seconds, -1):.0f} s left"
    return f"about {seconds / 60:.0f} min left"


class Screen:
    """A bar of progress that is overwritten on a terminal; colours only there."""

    WIDTH = 16

    def __init__(self, out=None, clock=time.monotonic):
        self.out = out or sys.stdout
        self.clock = clock
        self.terminal = self.out.isatty()
        self.colours = self.terminal and "NO_COLOR" not in os.environ
        self._step = ""
        self._line_at = 0.0

    def progress(self, step, share=None, left_s=None, count=""):
        """`step` says what is done, `count` how much of it. A log hears of a step at once, then now
        and then how far it is."""
        text = f"{step} {count}".strip() + " ..." + ("" if left_s is None else f" {left(left_s)}")
        if self.terminal:
            bar = ""
            if share is not None:
                full = min(self.WIDTH, int(share * self.WIDTH))
                bar = f"[{'#' * full}{'.' * (self.WIDTH - full)}] "
            line = (bar + text)[: shutil.get_terminal_size().columns - 1]
            print(f"\r\x1b[K{line}", end="", file=self.out, flush=True)
            return
        now = self.clock()
        if step != self._step or (share is not None and now - self._line_at >= LINE_EVERY_S):
            print(text, file=self.out, flush=True)
            self._step, self._line_at = step, now

    def clear(self):
        if self.terminal:
            print("\r\x1b[K", end="", file=self.out, flush=True)

    def paint(self, text, code):
        return f"\x1b[{code}m{text}\x1b[0m" if self.colours else text

    def good(self, text):
        return self.paint(text, "32")

    def bad(self, text):
        return self.paint(text, "31")

    def bold(self, text):
        return self.paint(text, "1")
