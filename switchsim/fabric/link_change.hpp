// What can be said of a link in text: its rate, delay, loss, queue, marking, and whether it is up.
// The words of a topology file and of `mprdma fabric set` are the same.
//
//   rate=200Mbps   kbps, Mbps, Gbps (or kb/s, Mb/s, Gb/s), from 100 kb/s to 1 Tb/s
//   loss=1%        or a share, loss=0.01
//   delay=20us     ns, us, ms, s; up to 10 s
//   queue=500kB    B, kB, MB (powers of ten)
//   red=1,20,60    probability at the top, bottom and top in kB on the wire; red=off
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "switchsim/model/topology.hpp"

namespace mprdma::switchsim {

struct LinkChange {
  std::optional<bool> up;
  std::optional<LinkRate> rate;
  std::optional<uint32_t> loss_ppm;
  std::optional<SimSpan> delay;
  std::optional<uint64_t> queue_bytes_max;
  std::optional<RedConfig> red;
};

// Each is false, and leaves `out` alone, when the text is no such value.
bool parse_rate(std::string_view text, LinkRate* out);
bool parse_loss(std::string_view text, uint32_t* ppm);
bool parse_delay(std::string_view text, SimSpan* out);
bool parse_bytes(std::string_view text, uint64_t* bytes);
bool parse_red(std::string_view text, RedConfig* out);
// The three numbers of a RED, checked.
bool make_red(double pmax, double kmin_kb, double kmax_kb, RedConfig* out);

// One word of `fabric set`, added to `out`: "up", "down" or "key=value".
Status parse_change(std::string_view word, LinkChange* out);

// For tables: "200Mbps", "1.5Gbps"; "20us".
std::string rate_text(LinkRate rate);
std::string delay_text(SimSpan delay);

}  // namespace mprdma::switchsim
