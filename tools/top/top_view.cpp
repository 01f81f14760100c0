#include "tools/top/top_view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/byte_order.hpp"
#include "base/ipv4.hpp"
#include "dataplane/sys/address_text.hpp"

namespace mprdma::tools {

namespace {

using dataplane::TopRecord;
using Stream = mprdma_abi_stream_stats;

constexpr const char* kModes[] = {"default", "mp", "mp-paper", "mp-single", "irn", "roce"};
constexpr const char* kStates[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

template <size_t N>
std::string name_of(const char* const (&names)[N], uint32_t index) {
  return index < N ? names[index] : std::to_string(index);
}

// Prints an IPv4 address if the GID is a mapped one.
std::string gid_text(const uint8_t* gid) {
  static constexpr uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (std::equal(kMapped, kMapped + sizeof(kMapped), gid)) {
    return dataplane::address_text(Ipv4(load_be32(gid + 12)));
  }
  if (std::all_of(gid, gid + 16, [](uint8_t byte) { return byte == 0; })) return "-";
  std::string text;
  for (int i = 0; i < 16; i += 2) {
    text += fmt::format("{}{:x}", i == 0 ? "" : ":", gid[i] << 8 | gid[i + 1]);
  }
  return text;
}

double rate_bps(uint64_t before, uint64_t now, uint64_t elapsed_ns) {
  // A counter that fell was reset together with its queue pair.
  if (now < before || elapsed_ns == 0) return 0;
  return static_cast<double>(now - before) * 8e9 / static_cast<double>(elapsed_ns);
}

double window_packets(const Stream& stream) {
  return static_cast<double>(stream.window_q16) / 65536;
}

nlohmann::json stream_json(const Stream& s) {
  return {{"window_packets", window_packets(s)},
          {"in_flight", s.in_flight},
          {"srtt_ns", s.srtt_ns},
          {"paths_in_use", s.paths_in_use},
          {"ooo_degree", s.ooo_degree},
          {"ooo_degree_max", s.ooo_degree_max},
          {"packets_sent", s.packets_sent},
          {"retransmitted", s.retransmitted},
          {"retransmitted_nack", s.retransmitted_nack},
          {"retransmitted_trigger", s.retransmitted_trigger},
          {"retransmitted_early", s.retransmitted_early},
          {"retransmitted_rto", s.retransmitted_rto},
          {"retransmitted_probe", s.retransmitted_probe},
          {"rto_expired", s.rto_expired},
          {"ece_received", s.ece_received},
          {"acks_pruned", s.acks_pruned},
          {"path_probes", s.path_probes},
          {"random_paths", s.random_paths},
          {"restarts", s.restarts},
          {"window_reductions", s.window_reductions}};
}

nlohmann::json qp_json(const TopQp& qp) {
  const TopRecord& r = qp.now;
  nlohmann::json out = {{"qpn", r.qpn},
                        {"state", name_of(kStates, r.state)},
                        {"mode", name_of(kModes, r.mode)},
                        {"peer", gid_text(r.dgid)},
                        {"peer_qpn", r.dest_qpn},
                        {"path_mtu", r.path_mtu},
                        {"bytes_sent", r.bytes_out},
                        {"bytes_received", r.bytes_in},
                        {"bytes_retransmitted", r.bytes_retransmitted},
                        {"sends_outstanding", r.sends_outstanding},
                        {"requests", stream_json(r.requests)},
                        {"responses", stream_json(r.responses)}};
  out["tx_bps"] = qp.has_rate ? nlohmann::json(qp.tx_bps) : nlohmann::json(nullptr);
  out["rx_bps"] = qp.has_rate ? nlohmann::json(qp.rx_bps) : nlohmann::json(nullptr);
  return out;
}

std::string rate_text(bool known, double bps) {
  return known ? fmt::format("{:.3f}", bps / 1e9) : std::string("-");
}

std::string qp_line(const TopRow& row, const TopQp& qp) {
  const TopRecord& r = qp.now;
  const Stream& s = busier_stream(r);
  const auto both = [&](auto member) { return r.requests.*member + r.responses.*member; };
  return fmt::format(
      "{:>7} {:<15.15} {:>8} {:<24.24} {:<9} {:>8} {:>8} {:>6.1f} {:>4} {:>8.1f} {:>3} {:>4}/{:<4} "
      "{:>6} {:>6} {:>6} {:>5} {:>5} {:>7}\n",
      row.process.head.pid, row.process.head.program.data(), r.qpn,
      fmt::format("{}:{}", gid_text(r.dgid), r.dest_qpn), name_of(kModes, r.mode),
      rate_text(qp.has_rate, qp.tx_bps), rate_text(qp.has_rate, qp.rx_bps), window_packets(s),
      s.in_flight, static_cast<double>(s.srtt_ns) / 1000, s.paths_in_use, s.ooo_degree,
      s.ooo_degree_max, both(&Stream::retransmitted_nack), both(&Stream::retransmitted_trigger),
      both(&Stream::retransmitted_early), both(&Stream::retransmitted_rto),
      both(&Stream::retransmitted_probe), both(&Stream::ece_received));
}

std::string header_line() {
  return fmt::format(
      "{:>7} {:<15} {:>8} {:<24} {:<9} {:>8} {:>8} {:>6} {:>4} {:>8} {:>3} {:>9} {:>6} {:>6} {:>6} "
      "{:>5} {:>5} {:>7}\n",
      "PID", "PROGRAM", "QPN", "PEER", "MODE", "TX Gb/s", "RX Gb/s", "WINDOW", "FLT", "SRTT us",
      "VPS", "OOO/MAX", "r.NACK", "r.TRIG", "r.EARL", "r.RTO", "r.PRB", "ECE");
}

}  // namespace

const mprdma_abi_stream_stats& busier_stream(const TopRecord& record) {
  return record.responses.packets_sent > record.requests.packets_sent ? record.responses
                                                                      : record.requests;
}

std::vector<TopRow> compare(const std::vector<TopProcess>& before,
                            const std::vector<TopProcess>& now) {
  std::map<std::pair<std::string, uint32_t>, const TopRecord*> known;
  for (const TopProcess& process : before) {
    for (const TopRecord& qp : process.qps) known[{process.socket, qp.qpn}] = &qp;
  }
  std::vector<TopRow> rows;
  for (const TopProcess& process : now) {
    TopRow row;
    row.process = process;
    row.process.qps.clear();
    for (const TopRecord& record : process.qps) {
      TopQp qp;
      qp.now = record;
      const auto it = known.find({process.socket, record.qpn});
      if (it != known.end() && record.time_ns > it->second->time_ns) {
        const uint64_t elapsed_ns = record.time_ns - it->second->time_ns;
        qp.has_rate = true;
        qp.tx_bps = rate_bps(it->second->bytes_out, record.bytes_out, elapsed_ns);
        qp.rx_bps = rate_bps(it->second->bytes_in, record.bytes_in, elapsed_ns);
      }
      row.qps.push_back(qp);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string as_table(const std::vector<TopRow>& rows, size_t lines) {
  struct Line {
    const TopRow* row;
    const TopQp* qp;
  };
  std::vector<Line> all;
  size_t silent = 0;
  for (const TopRow& row : rows) {
    silent += row.process.answered ? 0 : 1;
    for (const TopQp& qp : row.qps) all.push_back({&row, &qp});
  }
  std::stable_sort(all.begin(), all.end(), [](const Line& a, const Line& b) {
    return a.qp->tx_bps + a.qp->rx_bps > b.qp->tx_bps + b.qp->rx_bps;
  });
  double tx = 0;
  double rx = 0;
  for (const Line& line : all) {
    tx += line.qp->tx_bps;
    rx += line.qp->rx_bps;
  }
  std::string out =
      fmt::format("{} processes, {} queue pairs, sending {:.3f} Gb/s, receiving {:.3f}",
                  rows.size(), all.size(), tx / 1e9, rx / 1e9);
  if (silent > 0) out += fmt::format("; {} do not answer", silent);
  out += "\n" + header_line();
  const size_t shown = std::min(all.size(), lines);
  for (size_t i = 0; i < shown; ++i) out += qp_line(*all[i].row, *all[i].qp);
  if (shown < all.size()) out += fmt::format("... and {} more\n", all.size() - shown);
  return out;
}

nlohmann::json as_json(const std::vector<TopRow>& rows) {
  nlohmann::json processes = nlohmann::json::array();
  for (const TopRow& row : rows) {
    const auto& head = row.process.head;
    nlohmann::json process = {{"pid", head.pid}, {"answered", row.process.answered}};
    if (row.process.answered) {
      process["program"] = head.program.data();
      process["device"] = head.device.data();
      process["address"] = dataplane::address_text(head.ipv4);
      process["link_up"] = head.link_up != 0;
      process["time_ns"] = head.time_ns;
      process["port"] = {{"tx_frames", head.port_tx_frames},
                         {"rx_frames", head.port_rx_frames},
                         {"lost", head.port_lost}};
    }
    process["qps"] = nlohmann::json::array();
    for (const TopQp& qp : row.qps) process["qps"].push_back(qp_json(qp));
    processes.push_back(std::move(process));
  }
  return {{"schema", 1}, {"command", "top"}, {"processes", std::move(processes)}};
}

}  // namespace mprdma::tools
