// All counters of an engine under one list of names: its own, the decoder's drops, the transport's
// and the port's. With the engine's lock held.
#pragma once

#include <cstdint>
#include <string_view>

#include "dataplane/worker/worker.hpp"

namespace mprdma::dataplane {

// visit(prefix, name, value); the printed name is both together.
template <class Visit>
void for_each_counter(Worker& worker, Visit&& visit) {
  worker.counters().for_each(
      [&](std::string_view name, uint64_t value) { visit(std::string_view{""}, name, value); });
  for (size_t i = 1; i < wire::kDropReasonNames.size(); ++i) {
    visit(std::string_view{"drop_"}, wire::kDropReasonNames[i], worker.wire_drops().count[i]);
  }
  worker.nic_part().cm().agent().counters().for_each(
      [&](std::string_view name, uint64_t value) { visit(std::string_view{""}, name, value); });
  worker.transport_counters().for_each([&](std::string_view name, uint64_t value) {
    visit(std::string_view{"transport_"}, name, value);
  });
  worker.port().stats().for_each([&](std::string_view name, uint64_t value) {
    visit(std::string_view{"port_"}, name, value);
  });
}

}  // namespace mprdma::dataplane
