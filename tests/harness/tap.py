"""Cases whose outcome is printed as TAP, which `meson test` reads."""

from hosts import Failure, Unavailable


def run(cases):
    """Runs [(title, function), ...]: a function that raises no Failure has passed, and one that
    raises Unavailable says why it is skipped. Returns the exit code of the program."""
    print(f"1..{len(cases)}", flush=True)
    failed = 0
    for at, (title, function) in enumerate(cases, start=1):
        try:
            function()
            print(f"ok {at} - {title}", flush=True)
        except Unavailable as reason:
            print(f"ok {at} - {title} # SKIP {reason}", flush=True)
        except Failure as failure:
            failed += 1
            print(f"not ok {at} - {title}")
            print("\n".join(f"# {line}" for line in str(failure).splitlines()), flush=True)
    return 1 if failed else 0
