// Reads what the engines of this user's processes publish (dataplane/engine/top_protocol.hpp).
#pragma once

#include <string>
#include <vector>

#include "base/units.hpp"
#include "dataplane/engine/top_protocol.hpp"

namespace mprdma::tools {

struct TopProcess {
  std::string socket;  // its name is unique for an engine, as a process id is not
  dataplane::TopHead head;
  std::vector<dataplane::TopRecord> qps;
  bool answered = false;  // false: it runs, but did not answer in time (stopped, or overloaded)
};

// Asks all at once and waits for none longer than `patience`. Sockets that nobody listens on any
// more are removed: their processes ended without a chance to do it.
std::vector<TopProcess> read_processes(const std::vector<std::string>& directories,
                                       Duration patience);

// Parses one received answer. False: it is invalid or incomplete.
bool parse_answer(const std::string& bytes, TopProcess* out);

}  // namespace mprdma::tools
