"""The demo's picture: goodput of each path over time, a panel for each case."""

import pathlib
import shutil
import subprocess
import tempfile

COLOURS = ("#0072b2", "#56b4e9", "#009e73", "#e69f00")  # apart for colour-blind eyes, too


def draw(results, path_gbps, png):
    """Stacked areas, one for each path; the dashed line is what the paths that are up can carry.

    Returns the reason if it could not be drawn."""
    if shutil.which("gnuplot") is None:
        return "there is no gnuplot (scripts/setup-machine installs it)"
    with tempfile.TemporaryDirectory() as directory:
        script = _script(results, path_gbps, png, pathlib.Path(directory))
        ran = subprocess.run(["gnuplot"], input=script, text=True, capture_output=True, check=False)
    return None if ran.returncode == 0 else f"gnuplot: {ran.stderr.strip()[-400:]}"


def _script(results, path_gbps, png, directory):
    top = 4 * path_gbps * 1.12
    lines = [
        f"set terminal pngcairo size {300 * len(results)},420 font 'sans,11'",
        f"set output '{png}'",
        f"set multiplot layout 1,{len(results)} title "
        "'ib\\_write\\_bw over four paths: goodput of each path, Gb/s' font ',14'",
        "set style fill solid 0.85 noborder",
        "set grid ytics lc rgb '#dddddd'",
        "set border 3 lc rgb '#666666'",
        "set tics nomirror",
        f"set yrange [0:{top:.4f}]",
        "set xlabel 'seconds'",
        "unset key",
    ]
    for index, result in enumerate(results):
        data = directory / f"case{index}"
        capacity = directory / f"up{index}"
        _write_series(result, data)
        _write_capacity(result.case, path_gbps, capacity)
        lines.append(f"set title '{result.case.title}' font ',11'")
        lines.append(f"set xrange [0:{result.case.seconds}]")
        # The first case leaves room for it.
        key = "set key inside center right vertical samplen 1 font ',9'"
        lines.append(key if index == 0 else "unset key")
        areas = [
            f"'{data}' using 1:{2 + path}:{3 + path} with filledcurves lc rgb '{COLOURS[path]}' "
            f"title 'path {path + 1}'"
            for path in range(4)
        ]
        areas.append(f"'{capacity}' using 1:2 with lines dt 2 lc rgb '#333333' title 'what is up'")
        lines.append("plot " + ", ".join(areas))
    lines.append("unset multiplot")
    return "\n".join(lines) + "\n"


def _write_series(result, file):
    """Time, then the borders between the areas from below."""
    with file.open("w") as out:
        for at, rates in result.series:
            border, row = 0.0, [at, 0.0]
            for rate in rates:
                border += rate
                row.append(border)
            out.write(" ".join(f"{x:.6g}" for x in row) + "\n")


def _write_capacity(case, path_gbps, file):
    """A step for each change of what is up."""
    up = float(case.paths)
    speeds = {}
    for event in case.before:
        up += event.path_speed - 1.0
        speeds[event.link] = event.path_speed
    with file.open("w") as out:
        out.write(f"0 {up * path_gbps}\n")
        for event in sorted(case.events, key=lambda e: e.at_s):
            out.write(f"{event.at_s} {up * path_gbps}\n")
            up += event.path_speed - speeds.get(event.link, 1.0)
            speeds[event.link] = event.path_speed
            out.write(f"{event.at_s} {up * path_gbps}\n")
        out.write(f"{case.seconds} {up * path_gbps}\n")
