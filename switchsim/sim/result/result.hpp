// What a simulation measured. Plain data; result_json.hpp writes it.
//
// "Measured" = in [warm_up, end]; "total" = from time 0. Goodput counts payload bytes as they are
// placed in the receiver's memory. Series have one point per Scenario::sample, the first at time 0;
// cumulative ones begin with 0, so a rate over any window is a difference of two points.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "switchsim/model/network.hpp"
#include "switchsim/sim/hosts/message_record.hpp"
#include "switchsim/sim/result/fct.hpp"
#include "switchsim/sim/scenario/scenario.hpp"
#include "transport/core/counters.hpp"
#include "transport/core/stats.hpp"

namespace mprdma::switchsim {

// How far ahead of the next expected packet the data packets came in, at each arrival: psn -
// rcv_nxt; 0 in order. Duplicates of what was delivered are not counted.
struct OooHistogram {
  std::vector<uint64_t> count;  // by degree
  [[nodiscard]] uint64_t total() const;
  // Smallest degree that at least `p` (0 to 1) of the packets do not exceed.
  [[nodiscard]] uint32_t percentile(double p) const;
  [[nodiscard]] uint32_t max() const;
};

struct FlowResult {
  std::string name;
  std::string from;  // hosts: the one that posts, and the other
  std::string to;
  std::string transport;  // transport_name()
  // ---- Measured
  double goodput_bps = 0;
  OooHistogram ooo;
  double window_mean = 0;  // congestion window, packets, mean of the samples
  double srtt_mean_us = 0;
  // Payload bytes by path (index in Scenario::paths), of packets that came in.
  std::vector<uint64_t> path_bytes;
  uint64_t packets_received = 0;
  uint64_t ce_received = 0;  // of those, marked
  // ---- Total
  uint64_t posted_bytes = 0;
  uint64_t delivered_bytes = 0;  // placed
  uint64_t completed_bytes = 0;
  uint64_t messages_posted = 0;
  uint64_t messages_completed = 0;
  std::vector<MessageRecord> messages;  // completed ones
  transport::StreamStats stats;         // of the stream that carries the payload
  transport::TransportCounters sender;  // of the end that posts
  transport::TransportCounters receiver;
  uint64_t spurious = 0;  // copies that came to a receiver that had the packet already
  bool failed = false;    // an error completion came
  // Messages with the synchronise flag, and those of which something came too early.
  uint64_t sync_posted = 0;
  uint64_t sync_early = 0;
  // With FlowSpec::measure_flowlets: payload that left, and pauses longer than each gap of
  // kFlowletGapsNs. Mean size of a flowlet: bytes / (pauses + 1).
  uint64_t flowlet_bytes = 0;
  std::vector<uint64_t> flowlet_pauses;
  // ---- Series
  std::vector<uint64_t> delivered_series;                // cumulative payload bytes
  std::vector<float> window_series;                      // packets
  std::vector<float> srtt_us_series;                     // 0: no sample yet
  std::vector<std::vector<uint64_t>> path_bytes_series;  // [path][point], cumulative
  std::vector<uint32_t> ooo_max_series;                  // largest degree since the last point
  // With FlowSpec::measure_paths: virtual paths that its packets have left on, so far and since
  // the last point.
  std::vector<uint32_t> virtual_paths_series;
  std::vector<uint32_t> virtual_paths_recent_series;
};

// One direction of a link.
struct PortResult {
  std::string name;  // "path1.ab"
  PortId port = 0;
  LinkRate rate;  // at the end
  // ---- Measured
  LinkCounters counters;
  double utilisation = 0;  // busy share of the wire, at the rates that it had
  double mark_ratio = 0;   // marked / packets
  double queue_mean_bytes = 0;
  double queue_sd_bytes = 0;
  uint64_t queue_max_bytes = 0;  // of the samples
  uint64_t pause_sent = 0;       // pauses that the receiver asked the sender for
  double paused_share = 0;       // of the time, that the sender was paused
  // ---- Total
  LinkCounters total;
  uint64_t headroom_peak_bytes = 0;  // most that the receiver held beyond its limit
  // ---- Series
  std::vector<uint64_t> bytes_series;  // cumulative, on the wire
  std::vector<uint64_t> marked_series;
  std::vector<uint64_t> queue_series;  // bytes
  // With PFC only, cumulative.
  std::vector<uint64_t> pause_sent_series;
  std::vector<double> paused_us_series;
};

// Ports that wait for each other in a circle (switchsim/model/deadlock.hpp).
struct Deadlock {
  SimTime seen;  // the first point of the series at which it stood
  std::vector<std::string>
      cycle;  // "tor1-leaf2.ab": each waits for the next, the last for the first
  // "seen at 1100 us: a.ab -> b.ab waits for the first".
  [[nodiscard]] std::string text() const;
};

struct Result {
  std::string scenario;
  uint64_t seed = 0;
  bool pfc = false;      // pauses are measured
  SimTime end;           // time reached
  bool complete = true;  // false: interrupted; everything is as of `end`
  // Unexpected: error completions, conservation broken, packets out of a pool. Empty: sound.
  std::vector<std::string> errors;

  std::vector<FlowResult> flows;
  std::vector<PortResult> ports;  // by PortId
  std::vector<double> time_us;    // of the points of all series

  // ---- Measured, over all flows
  double goodput_bps = 0;
  double jain = 0;   // of the flows' goodputs
  OooHistogram ooo;  // all flows
  FctSummary fct;
  // ---- Total
  std::optional<Deadlock> deadlock;
  uint64_t receiver_drops = 0;  // packets that found the buffer of a slow receiver full
  uint64_t nic_watchdog_trips = 0;
  uint64_t switch_watchdog_trips = 0;
  // ---- Measured
  // Largest payload rate of a link of the fastest rate, and payload / wire bytes of full packets.
  double ceiling_bps = 0;
  double payload_share = 0;

  // ---- The simulator itself
  uint64_t events = 0;
  uint64_t packet_hops = 0;

  // Goodput of a flow over [from, to], both rounded to points of the series.
  [[nodiscard]] double goodput_bps_between(size_t flow, SimTime from, SimTime to) const;
  [[nodiscard]] const FlowResult* flow_named(std::string_view name) const;
  [[nodiscard]] const PortResult* port_named(std::string_view name) const;
  // Sum of a counter of StreamStats over all flows.
  [[nodiscard]] uint64_t retransmitted() const;
  [[nodiscard]] uint64_t timeouts() const;
  [[nodiscard]] uint64_t spurious() const;
};

// (sum x)^2 / (n sum x^2): 1 when all are equal, 1/n when one has everything, 0 when nobody has
// anything.
double jain_index(std::span<const double> values);

}  // namespace mprdma::switchsim
