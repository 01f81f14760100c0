#!/usr/bin/env python3
"""Writes workload_files.cpp: embed_workloads.py OUTPUT FILE..."""

import pathlib
import sys

HEAD = """// Made by embed_workloads.py.
#include "switchsim/sim/scenario/size_distribution.hpp"

namespace mprdma::switchsim {

namespace {

constexpr WorkloadFile kFiles[] = {
"""

TAIL = """};

}  // namespace

std::span<const WorkloadFile> workload_files() {
  return kFiles;
}

}  // namespace mprdma::switchsim
"""


def main():
    output, *files = sys.argv[1:]
    text = HEAD
    for name in files:
        path = pathlib.Path(name)
        text += f'    {{"{path.stem}", R"cdf({path.read_text()})cdf"}},\n'
    pathlib.Path(output).write_text(text + TAIL)


main()
