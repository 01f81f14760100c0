// The outcome of a function that can fail on a slow path: set-up, configuration, files, sockets.
//
// A function that also yields a value returns a Status and writes the value to an out argument: a
// pointer, the last argument, left as it was or half filled when the Status is not ok.
//
// A Status of success allocates nothing; an error builds a text. Code that runs for each packet
// therefore returns none: it counts drops. Functions that C calls return the errno value alone.
#pragma once

#include <string>
#include <string_view>

namespace mprdma {

// Invariant: `text` is empty exactly when `error` is 0. Written as `return {};` and
// `return {EINVAL, "what is wrong"};`.
struct [[nodiscard]] Status {
  int error = 0;     // errno value; EINVAL where a user's text is wrong
  std::string text;  // one line, no newline: what is wrong, where, and what would be right

  [[nodiscard]] bool ok() const { return error == 0; }
};

// Error of a system call that failed: "WHAT: No such file or directory". Never a success: an
// `error` of 0, from a caller that lost the errno value, becomes EIO.
Status system_status(std::string_view what, int error);

// The same Status with `prefix` before its text; success stays success.
Status prefixed(std::string_view prefix, Status status);

}  // namespace mprdma
