#include "switchsim/sim/scenario/toml_params.hpp"

#include "config/param_toml.hpp"
#include "switchsim/sim/scenario/checks.hpp"

namespace mprdma::switchsim {

namespace {

using transport::Param;
using transport::Params;
using transport::Protocol;

void read_preset(TomlReader& reader, Params* params) {
  size_t preset = 0;
  const bool named = reader.word("preset", transport::kPresetWords, &preset);
  if (named) *params = Params::of(static_cast<transport::Preset>(preset));
  size_t mode = 0;
  if (!reader.word("mode", transport::kProtocolWords, &mode)) return;
  const auto protocol = static_cast<Protocol>(mode);
  if (params->protocol == protocol) return;
  if (named) return reader.refuse("mode", "the mode of the preset, or none");
  *params = protocol == Protocol::kMp    ? Params::mp()
            : protocol == Protocol::kIrn ? Params::irn()
                                         : Params::roce();
}

// Reads `congestion` before the window: it may widen the window, and a key may narrow it again.
void read_congestion(TomlReader& reader, Params* params) {
  size_t word = 0;
  if (!reader.word("congestion", transport::kCongestionWords, &word)) return;
  params->set_congestion(static_cast<transport::Congestion>(word));
}

}  // namespace

void read_transport(const toml::table& table, const std::string& name, TomlErrors& errors,
                    TransportSpec* spec) {
  TomlReader reader(table, name, errors);
  Params* p = &spec->params;
  read_preset(reader, p);
  read_congestion(reader, p);
  transport::for_each_param([&](const Param& param, auto member) {
    const bool read_already = param.key == "mode" || param.key == "congestion";
    if (read_already || param.scope == transport::ParamScope::kLink) return;
    const toml::node* node = reader.node(param.key);
    if (node == nullptr) return;
    const Status status = config::read_param(*node, param, member, p);
    if (!status.ok()) reader.refuse(param.key, status.text);
  });
  p->settle();
  reader.integer("path_mtu", 256, 4096, &spec->path_mtu);
  reader.integer("timeout", 0, 31, &spec->timeout);
  reader.integer("retry_cnt", 0, 7, &spec->retry_cnt);
  reader.finish();
  // Checks relations between keys here, where their places in the file are known.
  const FieldError field_error = check_params(*p);
  if (!field_error.what.empty())
    reader.error_at(table.get(field_error.key), name + ": " + field_error.what);
}

}  // namespace mprdma::switchsim
