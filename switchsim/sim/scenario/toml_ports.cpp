#include "switchsim/sim/scenario/toml_ports.hpp"

#include <cmath>

namespace mprdma::switchsim {

void read_red(TomlReader& reader, RedConfig* red) {
  const toml::node* node = reader.node("red");
  if (node == nullptr) return;
  if (const auto* off = node->as_boolean(); off != nullptr && !off->get()) {
    *red = RedConfig{};
    return;
  }
  const toml::array* list = node->as_array();
  const bool good = list != nullptr && list->size() == 3;
  const auto pmax = good ? list->get(0)->value<double>() : std::nullopt;
  const auto kmin = good ? list->get(1)->value_exact<int64_t>() : std::nullopt;
  const auto kmax = good ? list->get(2)->value_exact<int64_t>() : std::nullopt;
  if (!pmax || !kmin || !kmax || !(*pmax >= 0 && *pmax <= 1) || *kmin < 0 || *kmin > *kmax ||
      *kmax > UINT32_MAX) {
    reader.refuse("red", "[pmax in 0..1, kmin bytes, kmax bytes], or false");
    return;
  }
  red->pmax_ppm = static_cast<uint32_t>(std::lround(*pmax * 1e6));
  red->kmin_bytes = static_cast<uint32_t>(*kmin);
  red->kmax_bytes = static_cast<uint32_t>(*kmax);
}

void read_marking(TomlReader& reader, RedConfig* red) {
  size_t mark = 0;
  if (reader.word("mark_on", {"dequeue", "enqueue"}, &mark)) red->mark_on_enqueue = mark == 1;
}

void read_queue(TomlReader& reader, uint64_t* bytes_max) {
  const toml::node* node = reader.node("queue_bytes");
  if (node == nullptr) return;
  if (const auto* word = node->as_string(); word != nullptr && word->get() == "unlimited") {
    *bytes_max = UINT64_MAX;
  } else {
    const auto* value = node->as_integer();
    if (value == nullptr || value->get() < 0) {
      reader.refuse("queue_bytes", "a whole number of bytes, or \"unlimited\"");
      return;
    }
    *bytes_max = static_cast<uint64_t>(value->get());
  }
}

void read_port(TomlReader& reader, PortConfig* port) {
  reader.rate_gbps("rate_gbps", &port->rate);
  reader.span_us("delay_us", &port->delay);
  reader.share("loss", &port->loss_ppm);
  reader.integer("drop_every", 0, INT32_MAX, &port->drop_every);
  read_queue(reader, &port->queue_bytes_max);
  read_red(reader, &port->red);
  read_marking(reader, &port->red);
}

}  // namespace mprdma::switchsim
