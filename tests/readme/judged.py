"""Runs a script of scripts/lib as its command would, on values in place of measurements."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
from unittest import mock


def run_main(module, options, **replaced):
    """(exit code or message, what it printed, its report or None) of module.main() with --json and
    --build; `replaced`: what stands in for attributes of the module."""
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        file = pathlib.Path(directory) / "report.json"
        words = [module.__name__, "--build", directory, "--json", str(file), *options]
        said = io.StringIO()
        stack.enter_context(contextlib.redirect_stdout(said))
        stack.enter_context(contextlib.redirect_stderr(said))
        stack.enter_context(mock.patch.object(sys, "argv", words))
        for name, stand_in in replaced.items():
            stack.enter_context(mock.patch.object(module, name, stand_in))
        try:
            code = module.main()
        except SystemExit as end:
            code = end.code
        return code, said.getvalue(), json.loads(file.read_text()) if file.exists() else None
