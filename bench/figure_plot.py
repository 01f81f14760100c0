"""Figures that the benchmarks draw, with gnuplot, in the manner of `mprdma sim figure`."""

import csv
import dataclasses
import pathlib
import shutil
import subprocess

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#333333")
POINTS = (7, 5, 9, 13, 11, 8)
WIDTH, HEIGHT, HEAD, FOOT, LEGEND_LINE = 580, 370, 40, 30, 18


@dataclasses.dataclass
class Panel:
    """Curves over one x axis: {name: [(x, y), ...]}."""

    title: str
    xlabel: str
    ylabel: str
    curves: dict
    log: str = ""  # axes with a logarithmic scale: "", "x", "xy"
    ticks: tuple = ()  # of the x axis: (text, position)
    top: float = 0  # of the y axis, which begins at 0; 0: as high as the curves


@dataclasses.dataclass
class Picture:
    title: str
    footnote: str
    panels: list


def need_gnuplot():
    """The reason why nothing can be drawn, or None."""
    if shutil.which("gnuplot") is None:
        return "there is no gnuplot (scripts/setup-machine installs it)"
    return None


def draw(picture, base):
    """Writes base.svg and base.csv. Returns the reason if that failed."""
    base = pathlib.Path(base)
    base.parent.mkdir(parents=True, exist_ok=True)
    _write_csv(picture, base.with_suffix(".csv"))
    ran = subprocess.run(["gnuplot"], input=_script(picture, base.with_suffix(".svg")), text=True,
                         capture_output=True, check=False)  # fmt: skip
    return None if ran.returncode == 0 else f"gnuplot: {ran.stderr.strip()[-400:]}"


def _write_csv(picture, path):
    with path.open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["panel", "curve", "x", "y"])
        for panel in picture.panels:
            for name, points in panel.curves.items():
                rows.writerows([panel.title, name, f"{x:.6g}", f"{y:.6g}"] for x, y in points)


def _quoted(text):
    """Gnuplot executes text between backquotes, also inside a string."""
    return '"' + text.replace("`", "'").replace("\\", "\\\\").replace('"', '\\"') + '"'


def _script(picture, svg):
    panels = picture.panels
    legend = LEGEND_LINE * max(len(panel.curves) for panel in panels)
    height = HEAD + HEIGHT + legend + FOOT
    lines = [
        f"set terminal svg size {WIDTH * len(panels)},{height} font 'Helvetica,11' "
        "background 'white'",
        f"set output {_quoted(str(svg))}",
        "set encoding utf8",
        "set termoption noenhanced",
        "set border 3 lc rgb '#444444'",
        "set grid ytics xtics lc rgb '#E3E3E3' lt 1 lw 1",
        "set ytics nomirror out font ',10'",
        "set tics textcolor rgb '#222222'",
        f"set label {_quoted(picture.title)} at screen 0.014,{1 - 22 / height:.5f} font ',14'",
        f"set label {_quoted(picture.footnote)} at screen 0.014,{12 / height:.5f} font ',9.5' "
        "tc rgb '#555555'",
    ]
    for at, panel in enumerate(panels):
        for number, points in enumerate(panel.curves.values()):
            rows = [f"{x:.6g} {y:.6g}" for x, y in points]
            lines += [f"$d{at}_{number} << EOD", *rows, "EOD"]
    lines.append("set multiplot")
    for at, panel in enumerate(panels):
        lines += _panel(panel, at, len(panels), height, FOOT + legend)
    return "\n".join([*lines, "unset multiplot", "unset output"]) + "\n"


def _panel(panel, at, count, height, below):
    left = (at + 74 / WIDTH) / count
    right = (at + 1 - 22 / WIDTH) / count
    bottom = below + 54
    xs = [x for points in panel.curves.values() for x, _ in points]
    ticks = ", ".join(f"{_quoted(text)} {x}" for text, x in panel.ticks)
    clauses = [
        f"$d{at}_{number} using 1:2 with linespoints lc rgb '{PALETTE[number]}' lw 2 "
        f"pt {POINTS[number]} ps 1.1 title {_quoted(name)}"
        for number, name in enumerate(panel.curves)
    ]
    return [
        f"set lmargin at screen {left:.5f}",
        f"set rmargin at screen {right:.5f}",
        f"set tmargin at screen {1 - (HEAD + 30) / height:.5f}",
        f"set bmargin at screen {bottom / height:.5f}",
        f"set title {_quoted(panel.title)} font ',11.5' offset 0,-0.4",
        f"set xlabel {_quoted(panel.xlabel)} offset 0,0.3",
        f"set ylabel {_quoted(panel.ylabel)} offset 1,0",
        "unset logscale" if not panel.log else f"unset logscale\nset logscale {panel.log}",
        f"set xtics ({ticks}) nomirror out font ',10'" if ticks else "set xtics auto nomirror out",
        f"set xrange [{min(xs) / 1.3}:{max(xs) * 1.3}]" if "x" in panel.log else "set xrange [*:*]",
        "set yrange [*:*]" if "y" in panel.log else f"set yrange [0:{panel.top or '*'}]",
        f"set key at screen {(left + right) / 2:.5f},{(bottom - 58) / height:.5f} top center "
        "horizontal maxcols 1 samplen 1.6 reverse Left font ',10'",
        "plot " + ", ".join(clauses),
        "unset label",
    ]
