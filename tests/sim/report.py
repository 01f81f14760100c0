#!/usr/bin/env python3
"""`mprdma sim figure` and `sim report` from outside: what is written, kept, replaced. Prints TAP.

usage: tests/sim/report.py MPRDMA

  MPRDMA    the command of the build
"""

import json
import os
import pathlib
import pty
import signal
import subprocess
import sys

sys.dont_write_bytecode = True
import outside  # noqa: E402
from outside import DEADLINE_S, expect, run  # noqa: E402


def interrupt_at(shown, *arguments):
    """Sends SIGINT when the progress bar has shown that text; returns exit code and terminal."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        outside.sim(*arguments), stdout=subprocess.DEVNULL, stderr=slave, close_fds=True
    )
    os.close(slave)
    seen = b""
    sent = False
    try:
        while chunk := os.read(master, 65536):
            seen += chunk
            if not sent and shown.encode() in seen:
                sent = True
                process.send_signal(signal.SIGINT)
    except OSError:  # the other end is closed
        pass
    os.close(master)
    return process.wait(timeout=DEADLINE_S), seen.decode()


def standard_output_is_json_alone(here):
    done = run("figure", "table1", "--size", "ci", "--out", here, "--json", "-")
    expect(json.loads(done.stdout)["figure"]["id"] == "mp/table1", done.stdout)
    expect("packed" in done.stderr, "the claims are not shown")


def constants_tell_runs_apart(here):
    run("figure", "20", "--size", "ci", "--out", here, "--json", here / "20.json")
    runs = json.loads((here / "20.json").read_text())["constants"]["runs"]
    turns = [run["flows"][0]["turn_packets"] for run in runs]
    expect(turns == [1, 1, 64], f"packets a turn: {turns}")
    expect(all(run["seeds"] == [1] and run["duration_us"] > 0 for run in runs), runs)
    keys = {"rate_bps", "loss", "red", "queue_bytes", "delay_us"}
    expect(all(keys <= run["links"][0].keys() for run in runs), runs[0]["links"])
    expect("pfc" in runs[0]["buffers"] and runs[0]["transport"], runs[0].keys())


def wide_figures_have_constants(here):
    run("figure", "1", "--size", "ci", "--out", here, "--json", here / "1.json")
    runs = json.loads((here / "1.json").read_text())["constants"]["runs"]
    expect(len(runs) == 3, f"{len(runs)} runs")
    expect({run["transport"][0]["window_slots"] for run in runs} == {2048}, runs)


def an_interrupted_figure_keeps_complete_runs(here):
    code, shown = interrupt_at(
        " 1 of ", "figure", "12a", "--size", "full", "--jobs", "1", "--out", here
    )
    expect(code == 130, f"exit code {code}: {shown}")
    kept = json.loads((here / "mp-12a.partial.json").read_text())
    expect(not kept["complete"] and kept["runs_complete"] == len(kept["runs"]) >= 1, kept.keys())
    expect(kept["runs_complete"] < kept["runs_planned"], "nothing was missing")
    first = kept["runs"][0]
    expect(first["seed"] == 1 and first["totals"]["goodput_bps"] > 0, first["totals"])
    expect(first["flows"][0]["goodput_bps"] > 0 and first["settings"]["links"], "no flow")
    expect("mp-12a.partial.json" in shown, shown)
    expect(not (here / "mp-12a.svg").exists(), "it was drawn")


def what_is_there_is_not_replaced_by_a_part(here):
    for name in ("results.md", "results.ci.md"):
        (here / name).write_text("before\n")
    done = run("report", "table1", "--size", "ci", "--out", here)
    expect("results.ci.md was left alone" in done.stderr, done.stderr)
    for name in ("results.md", "results.ci.md"):
        expect((here / name).read_text() == "before\n", f"{name} was replaced")
    page = (here / "results.ci.partial.md").read_text()
    expect("## mp/table1" in page and "Not complete" in page, page)
    expect("(.results.ci/mp-table1.svg)" in page, page)
    expect((here / ".results.ci/mp-table1.svg").exists(), "no picture")


def a_figure_that_is_there_is_not_run_again(here):
    report = ("report", "table1", "--size", "ci", "--out", here)
    expect("table1 ..." in run(*report).stderr, "not run")
    expect("table1 is there" in run(*report).stderr, "run again")
    expect("table1 ..." in run(*report, "--redo").stderr, "--redo does not")
    expect("table1 ..." in run(*report, "--seed", "2").stderr, "taken for another seed")
    kept = here / ".results.ci/mp-table1.json"
    kept.write_text(kept.read_text().replace('"build": "', '"build": "older'))
    expect("table1 ..." in run(*report, "--seed", "2").stderr, "taken from another build")
    kept.write_text(kept.read_text()[:100])
    expect("table1 ..." in run(*report, "--seed", "2").stderr, "a torn file is taken")


def a_page_with_all_figures_replaces_the_one_before(here):
    run("report", "table1", "--size", "ci", "--out", here)
    (here / "results.ci.md").write_text("before\n")
    kept = here / ".results.ci"
    part = json.loads((kept / "mp-table1.json").read_text())
    ids = [line.split()[0] for line in run("list").stdout.splitlines()]
    for name in ids:
        stem = name.replace("/", "-")
        text = json.dumps(part).replace("mp/table1", name).replace("mp-table1", stem)
        (kept / f"{stem}.json").write_text(text)
        (kept / f"{stem}.svg").write_bytes((kept / "mp-table1.svg").read_bytes())
    done = run("report", "--size", "ci", "--out", here, "--json", "-")
    expect("results.ci.md has all figures" in done.stderr, done.stderr)
    everything = json.loads(done.stdout)
    expect(len(everything["figures"]) == len(ids) and not everything["missing"], done.stdout)
    expect(all(one["processor_s"] > 0 for one in everything["figures"]), "one without its cost")
    page = (here / "results.ci.md").read_text()
    stems = [name.replace("/", "-") for name in ids]
    expect(all(f"(figures.ci/{stem}.svg)" in page for stem in stems), page)
    drawn = [(here / f"figures.ci/{stem}.svg").exists() for stem in stems]
    expect(all(drawn), "a picture is missing")
    expect(not (here / "results.ci.partial.md").exists(), "the part is still there")


def an_interrupted_report_keeps_whole_figures(here):
    # In the order of the list: 4 is through before 20 begins.
    report = ("report", "4", "20", "--size", "ci", "--jobs", "1", "--out", here)
    code, shown = interrupt_at("20 [", *report)
    expect(code == 130 and "results.ci.partial.md has 1 of" in shown, f"{code}: {shown}")
    expect(not (here / "results.ci.md").exists(), "a page of a part")
    done = run(*report)
    expect("mp/4 is there" in done.stderr and "mp/20 ..." in done.stderr, done.stderr)


def a_page_of_its_own_has_the_figures_that_are_named(here):
    (here / "results.ci.md").write_text("before\n")
    done = run("report", "table1", "--page", "part", "--size", "ci", "--out", here)
    expect("part.ci.md has all figures" in done.stderr, done.stderr)
    page = (here / "part.ci.md").read_text()
    expect("## mp/table1" in page and "Not complete" not in page, page)
    expect((here / "figures.ci/mp-table1.svg").exists(), "no picture")
    expect((here / "results.ci.md").read_text() == "before\n", "the page of all was replaced")
    expect("table1 is there" in run("report", "table1", "--size", "ci", "--out", here).stderr,
           "run again for the other page")  # fmt: skip
    run("report", "--page", "part", "--size", "ci", "--out", here, code=2)


def without_gnuplot_nothing_is_begun(here):
    done = run("report", "--size", "ci", "--out", here, code=1, env={"PATH": str(here)})
    expect("gnuplot" in done.stderr and "mp/1 ..." not in done.stderr, done.stderr)


CASES = [
    standard_output_is_json_alone,
    constants_tell_runs_apart,
    wide_figures_have_constants,
    an_interrupted_figure_keeps_complete_runs,
    what_is_there_is_not_replaced_by_a_part,
    a_figure_that_is_there_is_not_run_again,
    a_page_with_all_figures_replaces_the_one_before,
    an_interrupted_report_keeps_whole_figures,
    a_page_of_its_own_has_the_figures_that_are_named,
    without_gnuplot_nothing_is_begun,
]


if __name__ == "__main__":
    sys.exit(outside.run_cases(__doc__, CASES))
