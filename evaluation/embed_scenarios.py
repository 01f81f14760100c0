#!/usr/bin/env python3
"""Writes scenario_files.cpp: embed_scenarios.py OUTPUT FILE..."""

import pathlib
import sys

HEAD = """// Made by embed_scenarios.py.
#include "evaluation/scenario_files.hpp"

#include <array>
#include <utility>

namespace mprdma::figures {

namespace {

constexpr std::array<std::pair<const char*, const char*>, %d> kFiles = {{
"""

TAIL = """}};

}  // namespace

const char* scenario_file(const std::string& name) {
  for (const auto& [file, text] : kFiles) {
    if (name == file) return text;
  }
  return nullptr;
}

}  // namespace mprdma::figures
"""


def main():
    output, *files = sys.argv[1:]
    text = HEAD % len(files)
    for name in files:
        path = pathlib.Path(name)
        text += f'    {{"{path.name}", R"toml({path.read_text()})toml"}},\n'
    pathlib.Path(output).write_text(text + TAIL)


main()
