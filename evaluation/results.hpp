// What the subcommands that measure have in common: the machine in the result schema
// (docs/testing.md), and results written to a file.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace mprdma {

nlohmann::json machine_json();

// Whether write_result() could write there, before there is anything to be written; leaves nothing.
// False: standard error says why.
bool can_write(std::string_view command, const std::string& path);
// "-": standard output. False: it could not be written; standard error says so, in the name of
// `command`.
bool write_result(std::string_view command, const std::string& path, const std::string& text);

}  // namespace mprdma
