#!/usr/bin/env python3
"""Writes scenario_files.cpp: embed_scenarios.py OUTPUT FILE..."""

import pathlib
import sys

HEAD = """// Made by embed_scenarios.py.
#include "evaluation/scenario_files.hpp"

#include <array>

namespace mprdma::figures {

namespace {

struct File {
  const char* name;
  const char* folder;
  const char* text;
};
constexpr std::array<File, %d> kFiles = {{
"""

TAIL = """}};

}  // namespace

const char* scenario_file(const std::string& name) {
  for (const File& file : kFiles) {
    if (name == file.name) return file.text;
  }
  return nullptr;
}

std::string scenario_path(const std::string& name) {
  for (const File& file : kFiles) {
    if (name == file.name) return std::string("evaluation/") + file.folder + "/" + name;
  }
  return {};
}

}  // namespace mprdma::figures
"""


def main():
    output, *files = sys.argv[1:]
    text = HEAD % len(files)
    for name in files:
        path = pathlib.Path(name)
        text += f'    {{"{path.name}", "{path.parent.name}", R"toml({path.read_text()})toml"}},\n'
    pathlib.Path(output).write_text(text + TAIL)


main()
