#include "tools/doctor/path_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <set>

#include "wire/bth.hpp"
#include "wire/frame.hpp"
#include "wire/ipv4.hpp"

namespace mprdma::tools {

namespace {

namespace client = dataplane::client;

// Two paths count as different if the gap between their round-trip times is at least this and at
// least half of the shorter one.
constexpr uint64_t kRttGapNs = 50'000;

// Bytes from IP header to ICRC, without payload: of a probe, and of the data packet of mode mp with
// the longest headers (MP_WRITE_LAST_IMM).
constexpr size_t kProbeOverhead = wire::Ipv4Header::kBytes + wire::Udp::kBytes +
                                  wire::opcode_info(wire::Opcode::kUdSendOnly).header_bytes +
                                  wire::kIcrcBytes;
constexpr size_t kMpOverhead = wire::Ipv4Header::kBytes + wire::Udp::kBytes +
                               wire::opcode_info(wire::Opcode::kMpWriteLastImm).header_bytes +
                               wire::kIcrcBytes;

double us(uint64_t ns) {
  return static_cast<double>(ns) / 1000;
}

template <class Take>
void for_each_sample(const PathMeasured& measured, Take&& take) {
  for (const auto* list : {&measured.ports, &measured.there, &measured.back}) {
    for (const PathSample& sample : *list) take(sample);
  }
}

bool answered(const PathSample& sample) {
  return sample.answer.error == 0;
}

size_t count_answered(const std::vector<PathSample>& samples) {
  return static_cast<size_t>(std::count_if(samples.begin(), samples.end(), answered));
}

std::string mac_text(const std::array<uint8_t, 6>& mac) {
  return fmt::format("{:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}", mac[0], mac[1], mac[2], mac[3],
                     mac[4], mac[5]);
}

Finding unreached(const PathMeasured& measured) {
  Finding finding{"path.reached", "the peer", Health::kFail, "", ""};
  const int error = measured.ports.empty() ? ETIMEDOUT : measured.ports.front().answer.error;
  switch (error) {
    case EHOSTUNREACH:
      finding.detail = fmt::format("no neighbour answers for {}", measured.peer);
      finding.remedy = "is the peer up, on this subnet, or mprdmad --gateway missing?";
      break;
    case ENETDOWN:
      finding.detail = "the device has no wire, or its wire no link";
      finding.remedy = "a mprdmad with --port, whose other end is there: mprdmad(8)";
      break;
    case ETIMEDOUT:
      finding.detail =
          fmt::format("{} has a neighbour's address, but answers no probe", measured.peer);
      finding.remedy =
          "does an mprdmad, or an engine of this version that owns its port, run there? Does a "
          "firewall let UDP port 4791 through, in both directions?";
      break;
    default:
      finding.detail = fmt::format("the daemon refuses: {}", std::strerror(error));
      finding.remedy = error == EINVAL ? "another host's IPv4 address, not this device's own" : "";
  }
  return finding;
}

Finding judge_reached(const PathMeasured& measured) {
  const auto first = std::find_if(measured.ports.begin(), measured.ports.end(), answered);
  if (first == measured.ports.end()) return unreached(measured);
  uint64_t least = UINT64_MAX;
  for (const PathSample& sample : measured.ports) {
    if (answered(sample)) least = std::min(least, sample.answer.rtt_ns);
  }
  return {"path.reached", "the peer", Health::kOk,
          fmt::format("{} answers {}, by the neighbour {}; least round-trip time {:.1f} us",
                      measured.peer, measured.from, mac_text(first->answer.next_hop), us(least)),
          ""};
}

Finding judge_loss(const PathMeasured& measured) {
  Finding finding{"path.loss", "losses", Health::kOk, "", ""};
  const size_t sent = measured.ports.size();
  const size_t lost = sent - count_answered(measured.ports);
  std::string dead;
  size_t dead_count = 0;
  const std::vector<PortRow> rows = port_rows(measured);
  for (const PortRow& row : rows) {
    if (row.answered > 0) continue;
    ++dead_count;
    dead += fmt::format("{}{}", dead.empty() ? "" : ", ", row.port);
  }
  finding.detail = fmt::format("{} of {} short probes without an answer", lost, sent);
  if (lost == 0) return finding;
  finding.health = Health::kWarn;
  if (dead_count > 0 && rows.front().sent > 1) {
    finding.detail +=
        fmt::format("; all of them on {} of {} source ports: {}", dead_count, rows.size(), dead);
    finding.remedy =
        "a path that some source ports take may be broken; mode mp avoids it, roce does not";
  } else {
    finding.remedy = "a wire with errors, a full queue, or another host that asks this peer, too";
  }
  return finding;
}

// `side`: the end whose observation is judged.
Finding judge_ecn(const PathMeasured& measured, const char* id, const char* what,
                  client::PathSeen client::PathAnswer::*side) {
  std::array<size_t, 4> seen{};
  size_t total = 0;
  for_each_sample(measured, [&](const PathSample& sample) {
    if (!answered(sample)) return;
    ++total;
    ++seen[(sample.answer.*side).ecn & 3];
  });
  const auto count = [&](wire::Ecn ecn) { return seen[static_cast<size_t>(ecn)]; };
  Finding finding{id, what, Health::kOk, "", ""};
  std::string text;
  const auto add = [&](size_t number, const std::string& words) {
    if (number > 0)
      text += fmt::format("{}{} on {} of {}", text.empty() ? "" : "; ", words, number, total);
  };
  if (count(wire::Ecn::kEct0) == total) text = fmt::format("ECT(0) arrives as sent ({})", total);
  if (count(wire::Ecn::kEct0) != total) add(count(wire::Ecn::kEct0), "ECT(0) as sent");
  add(count(wire::Ecn::kCe), "marked CE");
  add(count(wire::Ecn::kNotEct), "bleached to 0");
  add(count(wire::Ecn::kEct1), "changed to ECT(1)");
  finding.detail = text;
  if (count(wire::Ecn::kNotEct) + count(wire::Ecn::kEct1) > 0) {
    finding.health = Health::kWarn;
    finding.remedy =
        "something on the way rewrites the low two bits of TOS: mode mp then learns of congestion "
        "by losses only. Let the switches keep them, and mark CE (RED with ECN, threshold low)";
  } else if (count(wire::Ecn::kCe) > 0) {
    finding.detail += ": the network marks, and is congested now or marks too early";
  } else {
    finding.detail += "; whether a queue marks when it fills shows only under load";
  }
  return finding;
}

// The largest length at which all probes got through, and the largest at which any did.
struct Through {
  size_t all = 0;
  size_t any = 0;
  std::string text;
};

Through through(const std::vector<PathSample>& samples) {
  std::map<uint16_t, std::pair<size_t, size_t>> sizes;  // probes answered and sent
  for (const PathSample& sample : samples) {
    auto& [good, sent] = sizes[sample.asked.bytes];
    good += answered(sample) ? 1 : 0;
    ++sent;
  }
  Through result;
  for (const auto& [bytes, counts] : sizes) {
    if (counts.first > 0) result.any = bytes;
    if (counts.first == counts.second) result.all = bytes;
    result.text += fmt::format("{}{}: {}/{}", result.text.empty() ? "" : ", ", bytes, counts.first,
                               counts.second);
  }
  return result;
}

Finding judge_sizes(const PathMeasured& measured, const char* id, const char* what,
                    const std::vector<PathSample>& samples) {
  const Through found = through(samples);
  Finding finding{id, what, Health::kOk, "", ""};
  finding.detail = fmt::format("answered by payload {}; largest {} (IP packets of {} bytes)",
                               found.text, found.any, found.any + kProbeOverhead);
  if (found.any < measured.device_mtu) {
    finding.health = Health::kFail;
    finding.remedy = fmt::format(
        "an IP MTU of {} bytes on every link (mode mp at path MTU {}), or a smaller --mtu on both "
        "hosts",
        measured.device_mtu + kMpOverhead, measured.device_mtu);
  } else if (found.all < measured.device_mtu) {
    finding.health = Health::kWarn;
    finding.remedy = "losses, or paths of which some take less: look at the counts";
  }
  return finding;
}

// A network that rewrites ports does not let a sender choose paths.
Finding judge_ports(const PathMeasured& measured) {
  size_t changed = 0;
  size_t total = 0;
  for (const PathSample& sample : measured.ports) {
    if (!answered(sample)) continue;
    ++total;
    const uint16_t port = sample.asked.source_port;
    changed += sample.answer.there.source_port != port || sample.answer.back.source_port != port;
  }
  if (changed == 0) {
    return {"path.ports", "UDP source ports", Health::kOk, "arrive as sent, in both directions",
            ""};
  }
  return {
      "path.ports", "UDP source ports", Health::kWarn,
      fmt::format("another one arrives on {} of {}", changed, total),
      "something translates addresses on the way: the transport cannot choose paths through it"};
}

Finding judge_spread(const PathMeasured& measured) {
  Finding finding{"path.spread", "paths", Health::kOk, "", ""};
  std::set<std::pair<uint32_t, uint32_t>> hops;
  std::vector<uint64_t> rtts;
  for (const PortRow& row : port_rows(measured)) {
    if (row.answered == 0) continue;
    hops.emplace(row.hops_there, row.hops_back);
    rtts.push_back(row.rtt_min_ns);
  }
  const auto [quick, slow] = std::minmax_element(rtts.begin(), rtts.end());
  const size_t ports = rtts.size();
  const size_t groups = rtt_groups(rtts);
  const std::string times =
      fmt::format("least round-trip times {:.1f} to {:.1f} us", us(*quick), us(*slow));
  if (hops.size() > 1) {
    finding.detail = fmt::format("hop counts differ between source ports: at least {} paths; {}",
                                 hops.size(), times);
  } else if (groups > 1) {
    finding.detail = fmt::format(
        "{} source ports with {} hops there and {} back; {}, in {} groups: a hint at so many paths "
        "or more",
        ports, hops.begin()->first, hops.begin()->second, times, groups);
  } else {
    finding.detail = fmt::format(
        "{} source ports with {} hops there and {} back; {}: one path, or several that are alike, "
        "which end hosts cannot tell apart: the switches' counters can",
        ports, hops.begin()->first, hops.begin()->second, times);
  }
  return finding;
}

}  // namespace

std::vector<PortRow> port_rows(const PathMeasured& measured) {
  std::map<uint16_t, PortRow> rows;
  std::map<uint16_t, std::vector<uint64_t>> times;
  for (const PathSample& sample : measured.ports) {
    PortRow& row = rows[sample.asked.source_port];
    row.port = sample.asked.source_port;
    ++row.sent;
    if (!answered(sample)) continue;
    ++row.answered;
    const client::PathAnswer& answer = sample.answer;
    // The hop limits are the peer's claims, so the difference must not fall below zero.
    const auto hops = [](const client::PathSeen& seen) {
      return seen.hop_limit_sent > seen.hop_limit ? uint32_t{seen.hop_limit_sent} - seen.hop_limit
                                                  : 0u;
    };
    row.hops_there = hops(answer.there);
    row.hops_back = hops(answer.back);
    times[row.port].push_back(answer.rtt_ns);
  }
  std::vector<PortRow> out;
  for (auto& [port, row] : rows) {
    std::vector<uint64_t>& rtts = times[port];
    std::sort(rtts.begin(), rtts.end());
    if (!rtts.empty()) row.rtt_min_ns = rtts.front();
    if (!rtts.empty()) row.rtt_median_ns = rtts[rtts.size() / 2];
    out.push_back(row);
  }
  return out;
}

size_t rtt_groups(std::vector<uint64_t> rtts_ns) {
  std::sort(rtts_ns.begin(), rtts_ns.end());
  size_t groups = rtts_ns.empty() ? 0 : 1;
  for (size_t i = 1; i < rtts_ns.size(); ++i) {
    const uint64_t gap = rtts_ns[i] - rtts_ns[i - 1];
    if (gap >= kRttGapNs && gap >= rtts_ns[i - 1] / 2) ++groups;
  }
  return groups;
}

std::vector<Finding> judge_path(const PathMeasured& measured) {
  std::vector<Finding> findings = {judge_reached(measured)};
  if (findings[0].health == Health::kFail) return findings;
  findings.push_back(judge_loss(measured));
  findings.push_back(
      judge_ecn(measured, "path.ecn-there", "ECN on the way there", &client::PathAnswer::there));
  findings.push_back(
      judge_ecn(measured, "path.ecn-back", "ECN on the way back", &client::PathAnswer::back));
  findings.push_back(
      judge_sizes(measured, "path.sizes-there", "lengths on the way there", measured.there));
  // If long questions do not arrive, nothing is known about long answers.
  if (count_answered(measured.there) > 0) {
    findings.push_back(
        judge_sizes(measured, "path.sizes-back", "lengths in both directions", measured.back));
  }
  findings.push_back(judge_ports(measured));
  findings.push_back(judge_spread(measured));
  return findings;
}

}  // namespace mprdma::tools
