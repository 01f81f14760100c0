"""Cases of scripts/build-perftest and of the files in perftest-patches/: no device, no compiler."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from hosts import ROOT, Failure, Unavailable

PATCHES = ROOT / "perftest-patches"
TARBALL = "perftest_25.01.0+0.80.orig.tar.gz"
SECONDS = 300
SKIPPED = 77


def expect(condition, what):
    if not condition:
        raise Failure(what)


def listed():
    lines = (PATCHES / "series").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def tarball(build):
    path = build / "perftest-download" / TARBALL
    if not path.exists():
        raise Unavailable("scripts/build-perftest has not fetched upstream's sources here")
    return path


def script(tree, *arguments):
    """Runs tree/scripts/build-perftest: its exit status and what it prints."""
    ran = subprocess.run(
        [tree / "scripts/build-perftest", *map(str, arguments)], text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS,
        env={**os.environ, "MPRDMA_SETUP": "skip"},
    )  # fmt: skip
    return ran.returncode, ran.stdout


class Copy:
    """A tree with the script and the series, to spoil; edit() unpacks upstream and applies them."""

    def __enter__(self):
        self._directory = tempfile.TemporaryDirectory(prefix="mprdma-perftest-")
        self.tree = pathlib.Path(self._directory.name) / "tree"
        shutil.copytree(PATCHES, self.tree / "perftest-patches")
        (self.tree / "scripts").mkdir()
        for name in ("build-perftest", "packages-perftest.txt"):
            shutil.copy(ROOT / "scripts" / name, self.tree / "scripts")
        return self

    def __exit__(self, *_):
        self._directory.cleanup()

    def patch(self, number):
        return self.tree / "perftest-patches" / listed()[number]

    def build(self, build, *arguments):
        out = pathlib.Path(self._directory.name) / "out"
        status, said = script(self.tree, "--build", build, "--out", out, *arguments)
        if status == SKIPPED:
            raise Unavailable(said.strip())
        return status, said

    def edit(self, *arguments):
        made = pathlib.Path(self._directory.name) / "edit"
        status, said = script(self.tree, "--edit", made, *arguments)
        expect(status == 0, said)
        return made


def files(_build):
    """series names each patch once, and nothing else; a patch names nobody and no machine."""
    names = sorted(path.name for path in PATCHES.glob("*.patch"))
    expect(names == sorted(listed()), f"series: {listed()}, patches: {names}")
    for name in names:
        text = (PATCHES / name).read_text()
        expect(re.search(r"^From: mprdma developers <mprdma@localhost>$", text, re.MULTILINE),
               f"{name}: another author")  # fmt: skip
        expect(re.search(r"^diff --git a/\S+ b/\S+$", text, re.MULTILINE), f"{name}: no diff")
        expect(f"`{name}`" in (PATCHES / "README.md").read_text(), f"{name}: not in README.md")


def applies(build):
    """To upstream's sources; each patch is again what it was when it is exported anew."""
    sources = tarball(build)
    with Copy() as copy:
        made = copy.edit("--tarball", sources)
        exported = made.parent / "exported"
        subprocess.run(
            ["git", "-C", made, "format-patch", "-q", "-N", "--zero-commit", "--no-signature",
             "--no-stat", "-o", exported, "upstream..HEAD"],
            check=True, timeout=SECONDS,
        )  # fmt: skip
        for name in listed():
            before, after = (PATCHES / name).read_text(), (exported / name).read_text()
            # Another git may shorten the hashes of an index line to another length.
            hashes = re.compile(r"^index \w+\.\.\w+", re.MULTILINE)
            expect(hashes.sub("", before) == hashes.sub("", after), f"{name} is not as exported")


def refuses_other_sources(build):
    with Copy() as copy:
        changed = copy.tree / "changed.tar.gz"
        content = bytearray(tarball(build).read_bytes())
        content[len(content) // 2] ^= 1
        changed.write_bytes(content)
        status, said = copy.build(build, "--tarball", changed)
    expect(status == 1 and "has another SHA-256" in said, f"status {status}: {said}")


def refuses_patch(change, number=1):
    """The script fails on a patch that does not fit in exactly the place that it names."""

    def run(build):
        sources = tarball(build)
        with Copy() as copy:
            path = copy.patch(number)
            before = path.read_text()
            after = change(before)
            expect(after != before, "the case changes nothing")
            path.write_text(after)
            status, said = copy.build(build, "--tarball", sources)
        expect(status == 1 and f"{path.name} does not apply" in said, f"status {status}: {said}")

    return run


def other_context(text):
    """Of a hunk: one line that upstream does not have."""
    return re.sub(r"^ (\tif \(ctx->qp != NULL\))$", r" \1 /* spoilt */", text, 1, re.MULTILINE)


def other_line(text):
    """Of a hunk: it begins seven lines further down."""
    return re.sub(
        r"^@@ -(\d+),(\d+) \+(\d+),(\d+) @@ (.*post_atomic.*)$",
        lambda m: f"@@ -{int(m[1]) + 7},{m[2]} +{int(m[3]) + 7},{m[4]} @@ {m[5]}",
        text, count=1, flags=re.MULTILINE,
    )  # fmt: skip


def refuses_missing_patch(build):
    sources = tarball(build)
    with Copy() as copy:
        copy.patch(2).unlink()
        status, said = copy.build(build, "--tarball", sources)
    expect(status == 1 and "which is not there" in said, f"status {status}: {said}")


CASES = [
    ("perftest-patches: series, patches and README name each other", files),
    ("the series applies, and is as git exports it", applies),
    ("other sources are refused", refuses_other_sources),
    ("a patch for other sources is refused", refuses_patch(other_context)),
    ("a patch that fits elsewhere is refused", refuses_patch(other_line)),
    ("a patch that is missing is refused", refuses_missing_patch),
]
