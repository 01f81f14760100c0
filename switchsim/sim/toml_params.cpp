#include "switchsim/sim/toml_params.hpp"

#include <algorithm>
#include <cmath>

#include "switchsim/sim/checks.hpp"
#include "switchsim/sim/param_words.hpp"

namespace mprdma::switchsim {

namespace {

using transport::Params;

// Packets that a RoCE flow may have unacknowledged, at most.
constexpr int64_t kRoceWindowMax = 65'536;

using transport::Congestion;
using transport::Protocol;

void read_preset(TomlReader& reader, Params* params) {
  size_t preset = 0;
  const bool named = reader.word(
      "preset", {"mp", "mp-single", "mp-figures", "mp-paper", "roce", "dcqcn-paper", "dcqcn-tuned"},
      &preset);
  const Params presets[] = {Params::mp(),
                            Params::mp_single(),
                            Params::mp_figures(),
                            Params::mp_paper(),
                            Params::roce(),
                            Params::roce_with(Congestion::kDcqcnPaper),
                            Params::roce_with(Congestion::kDcqcnTuned)};
  if (named) *params = presets[preset];
  size_t mode = 0;
  if (!reader.word("mode", kProtocolWords, &mode)) return;
  const Protocol protocol = mode == 0 ? Protocol::kMp : Protocol::kRoce;
  if (params->protocol == protocol) return;
  if (named) return reader.refuse("mode", "the mode of the preset, or none");
  *params = mode == 0 ? Params::mp() : Params::roce();
}

void read_congestion(TomlReader& reader, Params* params) {
  size_t word = 0;
  if (!reader.word("congestion", kCongestionWords, &word)) return;
  params->congestion = static_cast<Congestion>(word);
  if (params->congestion == Congestion::kNone) return;
  if (params->protocol != Protocol::kRoce) {
    return reader.refuse("congestion", "mode = \"roce\" with it, or \"none\"");
  }
  params->window_max =
      std::max(params->window_max, Params::roce_with(params->congestion).window_max);
}

void read_duration(TomlReader& reader, std::string_view key, int64_t low_us, int64_t high_us,
                   Duration* out) {
  double us = 0;
  if (reader.number(key, static_cast<double>(low_us), static_cast<double>(high_us), &us)) {
    *out = Duration::ns(std::llround(us * 1e3));
  }
}

void read_window(TomlReader& reader, Params* p) {
  const bool mp = p->protocol == Protocol::kMp;
  if (reader.integer("window_slots", 8, transport::kWindowSlotsMax, &p->window_slots) &&
      (p->window_slots & (p->window_slots - 1)) != 0) {
    reader.refuse("window_slots", "a power of two in 8..128");
  }
  size_t control = 0;
  if (reader.word("window_control", kWindowControlWords, &control)) {
    p->window_control = static_cast<cc::WindowControl>(control);
    if (!mp && p->window_control != cc::WindowControl::kMp) {
      reader.refuse("window_control", "mode = \"mp\" with it, or \"mp\"");
    }
  }
  reader.integer("initial_window", 1, transport::kWindowSlotsMax, &p->initial_window);
  reader.integer("window_max", 1, mp ? transport::kSendSpanMax : kRoceWindowMax, &p->window_max);
  if (!mp) p->initial_window = std::min(p->initial_window, p->window_max);  // it has none
  if (reader.integer("loss_trigger", 0, transport::kWindowSlotsMax, &p->loss_trigger) &&
      p->loss_trigger != 0 && p->loss_trigger < 8) {
    reader.refuse("loss_trigger", "0 (off) or a whole number in 8..128");
  }
  reader.integer("reorder_delta", 8, transport::kWindowSlotsMax, &p->reorder_delta);
}

void read_mends(TomlReader& reader, Params* p) {
  reader.boolean("limit_growth", &p->limit_growth);
  reader.boolean("loss_shrinks_window", &p->loss_shrinks_window);
  reader.boolean("timeout_shrinks_window", &p->timeout_shrinks_window);
  reader.boolean("adapt_timeout", &p->adapt_timeout);
  reader.boolean("early_retransmit", &p->early_retransmit);
  reader.boolean("tail_probe", &p->tail_probe);
  reader.boolean("sack_map", &p->sack_map);
  reader.boolean("path_window_reduction", &p->path_window_reduction);
  reader.boolean("window_give_back", &p->window_give_back);
  reader.boolean("sync_wait_is_backlog", &p->sync_wait_is_backlog);
  size_t rule = 0;
  if (reader.word("restart", kRestartWords, &rule)) {
    p->restart = static_cast<transport::RestartRule>(rule);
  }
}

void read_times(TomlReader& reader, Params* p) {
  read_duration(reader, "rto_floor_us", 50, 1'000'000, &p->rto_floor);
  read_duration(reader, "rto_ceiling_us", 50, 10'000'000, &p->rto_ceiling);
  read_duration(reader, "probe_floor_us", 5, 1'000'000, &p->probe_floor);
  read_duration(reader, "initial_rtt_us", 1, 100'000, &p->initial_rtt);
}

void read_paths(TomlReader& reader, Params* p) {
  size_t word = 0;
  if (reader.word("path_policy", kPathPolicyWords, &word)) {
    p->path_policy = static_cast<transport::PathPolicy>(word);
    if (p->protocol == Protocol::kRoce && p->path_policy != transport::PathPolicy::kSingle) {
      reader.refuse("path_policy", "mode = \"mp\" with it, or \"single\"");
    }
  }
  reader.integer("path_probe_per_mille", 0, 1000, &p->path_probe_per_mille);
  if (reader.word("placement", kPlacementWords, &word)) {
    p->placement = static_cast<transport::PlacementPolicy>(word);
  }
  if (reader.word("sync_policy", kSyncPolicyWords, &word)) {
    p->sync_policy = static_cast<transport::SyncPolicy>(word);
  }
  double alpha = 0;
  if (reader.number("sync_alpha", 0, 16, &alpha)) {
    p->sync_alpha = Fixed16::from_raw(static_cast<uint32_t>(std::lround(alpha * 65536)));
  }
}

}  // namespace

void read_transport(const toml::table& table, const std::string& name, TomlErrors& errors,
                    TransportSpec* spec) {
  TomlReader reader(table, name, errors);
  Params* p = &spec->params;
  read_preset(reader, p);
  read_congestion(reader, p);
  read_window(reader, p);
  read_mends(reader, p);
  read_times(reader, p);
  read_paths(reader, p);
  reader.integer("path_mtu", 256, 4096, &spec->path_mtu);
  reader.integer("timeout", 0, 31, &spec->timeout);
  reader.integer("retry_cnt", 0, 7, &spec->retry_cnt);
  reader.finish();
  // What two keys have to agree on, where the place in the file is still known.
  const Wrong wrong = check_params(*p);
  if (!wrong.what.empty()) reader.error_at(table.get(wrong.key), name + ": " + wrong.what);
}

}  // namespace mprdma::switchsim
