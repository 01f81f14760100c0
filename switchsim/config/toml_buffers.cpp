#include "switchsim/config/toml_buffers.hpp"

#include <fmt/format.h>

#include <cmath>

namespace mprdma::switchsim {

namespace {

// The defaults of `pfc = true`; docs/simulator.md names the sources.
constexpr uint64_t kPfcBufferBytes = 12'000'000;
constexpr uint32_t kPfcReserveBytes = 4096;
constexpr uint32_t kPfcAlphaQ16 = (1 << 16) / 8;
constexpr double kAlphaMax = kBufferAlphaQ16Max / 65536.0;

void read_alpha(TomlReader& reader, uint32_t* alpha_q16) {
  double alpha = 0;
  if (!reader.number("buffer_alpha", 0, kAlphaMax, &alpha)) return;
  *alpha_q16 = static_cast<uint32_t>(std::lround(alpha * 65536));
  if (*alpha_q16 == 0) reader.refuse("buffer_alpha", fmt::format("above 0, to {}", kAlphaMax));
}

void read_headroom(TomlReader& reader, PfcConfig* pfc) {
  const bool is_number = reader.table()["headroom_bytes"].is_integer();
  if (is_number) {
    pfc->headroom = Headroom::kBytes;
    reader.integer("headroom_bytes", 0, kManagedBufferBytesMax, &pfc->headroom_bytes);
    return;
  }
  const char* const expected = "a whole number of bytes, \"auto\" or \"hpcc\"";
  reader.parsed_text("headroom_bytes", expected, false, [&](const std::string& word) {
    pfc->headroom = word == "hpcc" ? Headroom::kHpcc : Headroom::kAuto;
    return word == "auto" || word == "hpcc";
  });
}

}  // namespace

void read_buffers(TomlReader& reader, Topology* topology) {
  PfcConfig& pfc = topology->pfc;
  reader.boolean("pfc", &pfc.on);
  if (pfc.on) {
    if (topology->switch_buffer_bytes == 0) topology->switch_buffer_bytes = kPfcBufferBytes;
    topology->reserve_bytes = kPfcReserveBytes;
    topology->buffer_alpha_q16 = kPfcAlphaQ16;
  }
  reader.integer("switch_buffer_bytes", 0, INT64_MAX, &topology->switch_buffer_bytes);
  reader.integer("reserve_bytes", 0, 1 << 30, &topology->reserve_bytes);
  read_alpha(reader, &topology->buffer_alpha_q16);
  read_headroom(reader, &pfc);
  reader.integer("pause_bytes", 1, kManagedBufferBytesMax, &pfc.pause_bytes);
  reader.integer("hysteresis_bytes", 0, 1 << 30, &pfc.hysteresis_bytes);
  reader.boolean("global_pause", &pfc.global);
  size_t priority = 0;
  if (reader.word("priority", {"dscp", "pcp"}, &priority)) pfc.pcp = priority == 1;
  for (const char* key :
       {"headroom_bytes", "pause_bytes", "hysteresis_bytes", "global_pause", "priority"}) {
    if (!pfc.on && reader.table().contains(key)) reader.refuse(key, "pfc = true with it");
  }
  if (topology->switch_buffer_bytes != 0) return;
  if (reader.table().contains("buffer_alpha")) {
    reader.refuse("buffer_alpha", "switch_buffer_bytes above 0 with it");
  }
  if (pfc.on && pfc.pause_bytes == 0) {
    reader.refuse("switch_buffer_bytes", "above 0 with pfc, or pause_bytes");
  }
  topology->buffer_alpha_q16 = 0;
}

}  // namespace mprdma::switchsim
