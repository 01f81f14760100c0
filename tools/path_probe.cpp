#include "tools/path_probe.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/prng.hpp"
#include "dataplane/address.hpp"
#include "dataplane/clock.hpp"
#include "dataplane/nic/message_socket.hpp"
#include "tools/daemon_client.hpp"
#include "wire/probe_mad.hpp"

namespace mprdma::tools {

namespace {

namespace nic = dataplane::nic;
using dataplane::clock_now;

// One under way at a time, so that they do not queue behind one another; but nobody waits for a
// lost one. The peer answers one a millisecond in the long run.
constexpr Duration kGapMin = Duration::ms(2);
constexpr Duration kGapMax = Duration::ms(20);
constexpr size_t kOpenMax = 24;
// Of the daemon, which gives every probe an end by itself.
constexpr Duration kSilenceMax = Duration::s(20);
constexpr unsigned kRefusalsMax = 1000;
constexpr size_t kSizePorts = 8;

// A connection to the daemon, and what is asked over it.
class Asker {
 public:
  Asker() = default;
  Asker(const Asker&) = delete;
  Asker& operator=(const Asker&) = delete;
  ~Asker() {
    if (fd_ >= 0) close(fd_);
  }

  int connect(const std::string& socket) { return connect_daemon(socket, &fd_, nullptr); }
  // Adds a sample for each probe of the plan, in its order. Empty, or why there are none.
  std::string ask(std::vector<nic::PathProbe> plan, std::vector<PathSample>* out);

 private:
  std::string read_answers();
  void take(const nic::PathAnswer& answer);

  int fd_ = -1;
  std::vector<PathSample> samples_;
  std::vector<bool> ended_;
  std::vector<size_t> to_ask_;  // the last first
  size_t open_ = 0;
  unsigned refusals_ = 0;
};

std::string Asker::ask(std::vector<nic::PathProbe> plan, std::vector<PathSample>* out) {
  samples_.assign(plan.size(), PathSample{});
  ended_.assign(plan.size(), false);
  to_ask_.clear();
  for (size_t i = plan.size(); i > 0; --i) to_ask_.push_back(i - 1);
  open_ = 0;
  refusals_ = 0;
  Time last_sent;
  Time last_heard = clock_now();
  while (open_ > 0 || !to_ask_.empty()) {
    const Time now = clock_now();
    const Time next = last_sent + (open_ == 0 ? kGapMin : kGapMax);
    if (!to_ask_.empty() && open_ < kOpenMax && now >= next) {
      const size_t index = to_ask_.back();
      to_ask_.pop_back();
      auto probe = plan[index];
      probe.head = nic::new_message<nic::PathProbe>(static_cast<uint32_t>(index + 1)).head;
      samples_[index].asked = probe;
      if (nic::send_message(fd_, probe) != 0) return "mprdmad has ended the connection";
      last_sent = now;
      ++open_;
      continue;
    }
    if (now - last_heard > kSilenceMax) return "mprdmad does not answer";
    const Duration wait =
        to_ask_.empty() || open_ >= kOpenMax ? Duration::ms(100) : std::max(next - now, Duration());
    pollfd waiting{fd_, POLLIN, 0};
    if (poll(&waiting, 1, static_cast<int>(wait.count_ns() / 1'000'000) + 1) <= 0) continue;
    last_heard = clock_now();
    std::string error = read_answers();
    if (!error.empty()) return error;
  }
  out->insert(out->end(), samples_.begin(), samples_.end());
  return {};
}

std::string Asker::read_answers() {
  for (;;) {
    nic::Incoming in;
    const int error = nic::receive_message(fd_, &in);
    if (error == EAGAIN) return {};
    if (error != 0) {
      return "mprdmad has ended the connection: is it of this version, and does it serve this "
             "user?";
    }
    if (in.passed_fd >= 0) close(in.passed_fd);
    nic::Head head;
    if (nic::check_message(in.message(), &head) != nic::MessageFault::kNone) {
      return "mprdmad says what nobody understands: use one installation for both";
    }
    if (head.type == nic::MessageType::kRefused) {
      const auto refused = nic::load_message<nic::Refused>(in.message());
      return std::string(nic::text_of(refused.text));
    }
    if (head.type != nic::MessageType::kPathAnswer) continue;
    take(nic::load_message<nic::PathAnswer>(in.message()));
    if (refusals_ > kRefusalsMax) return "mprdmad is asked too much by others: try again";
  }
}

void Asker::take(const nic::PathAnswer& answer) {
  const size_t index = size_t{answer.head.serial} - 1;
  if (index >= samples_.size() || ended_[index] || open_ == 0) return;
  --open_;
  if (answer.error == EAGAIN) {
    ++refusals_;
    to_ask_.push_back(index);
    return;
  }
  samples_[index].answer = answer;
  ended_[index] = true;
}

// Any of the range that the transport uses. Not in even steps, which a hash may not see; the same
// in every run, so that two can be compared.
std::vector<uint16_t> choose_ports(uint32_t peer, unsigned count) {
  Prng prng(peer);
  std::vector<uint16_t> ports;
  while (ports.size() < count) {
    const auto port =
        static_cast<uint16_t>(prng.range(wire::kVirtualPathMin, wire::kVirtualPathMax));
    if (std::find(ports.begin(), ports.end(), port) == ports.end()) ports.push_back(port);
  }
  return ports;
}

class Measurement {
 public:
  Measurement(Asker* asker, uint32_t peer, PathMeasured* out)
      : asker_(asker), peer_(peer), out_(out) {}

  // The first round tells whether there is anybody; the others follow one another without a pause.
  std::string ports(const std::vector<uint16_t>& ports, unsigned rounds) {
    std::vector<nic::PathProbe> plan;
    plan.reserve(ports.size());
    for (const uint16_t port : ports) plan.push_back(probe(port, wire::kProbeBytesMin, false));
    std::string error = asker_->ask(std::move(plan), &out_->ports);
    if (!error.empty() || good_ports().empty()) return error;
    plan.clear();
    for (unsigned round = 1; round < rounds; ++round) {
      for (const uint16_t port : ports) plan.push_back(probe(port, wire::kProbeBytesMin, false));
    }
    return asker_->ask(std::move(plan), &out_->ports);
  }

  // Over ports that work: else a broken path would look like one that takes no long packets.
  std::string sizes(bool long_answers, std::vector<PathSample>* out) {
    std::vector<uint16_t> ports = good_ports();
    if (ports.size() > kSizePorts) ports.resize(kSizePorts);
    std::vector<nic::PathProbe> plan;
    for (const uint16_t bytes : {256, 1024, 2048, 4096}) {
      if (bytes > out_->device_mtu) continue;
      for (const uint16_t port : ports) plan.push_back(probe(port, bytes, long_answers));
    }
    return asker_->ask(std::move(plan), out);
  }

  [[nodiscard]] std::vector<uint16_t> good_ports() const {
    std::vector<uint16_t> good;
    for (const PortRow& row : port_rows(*out_)) {
      if (row.answered > 0) good.push_back(row.port);
    }
    return good;
  }

 private:
  nic::PathProbe probe(uint16_t port, size_t bytes, bool long_answer) {
    nic::PathProbe probe;
    probe.peer = peer_;
    probe.sequence = ++sequence_;
    probe.source_port = port;
    probe.bytes = static_cast<uint16_t>(bytes);
    probe.answer_bytes = long_answer ? probe.bytes : uint16_t{wire::kProbeBytesMin};
    probe.ecn = static_cast<uint8_t>(wire::Ecn::kEct0);
    return probe;
  }

  Asker* asker_;
  uint32_t peer_;
  PathMeasured* out_;
  uint32_t sequence_ = 0;
};

// The daemon that answers at one of these places.
std::string find_asked(const PathOptions& options, DaemonInfo* out) {
  std::vector<std::string> places = {options.socket};
  if (options.socket.empty()) {
    const auto environment = [](const char* name) { return std::getenv(name); };
    std::string error = daemon_places(environment, options.runtime_directory, &places);
    if (!error.empty()) return error;
  }
  std::string said;
  for (const std::string& place : places) {
    const int error = query_daemon(place, out);
    if (error == 0) return {};
    said += fmt::format("{}{} ({})", said.empty() ? "" : ", ", place, std::strerror(error));
  }
  return fmt::format(
      "no mprdmad answers at {}: --path asks through mprdmad, start one with --port "
      "(mprdmad(8)), or name it with --socket",
      said);
}

}  // namespace

std::string measure_path(const PathOptions& options, PathMeasured* out) {
  uint32_t peer = 0;
  uint32_t bits = 0;
  if (!dataplane::parse_address(options.peer, &peer, &bits)) {
    return fmt::format("--path {}: expected the IPv4 address of a peer, like 10.73.0.2",
                       options.peer);
  }
  DaemonInfo info;
  std::string error = find_asked(options, &info);
  if (!error.empty()) return error;
  Asker asker;
  if (const int refused = asker.connect(info.device.socket); refused != 0) {
    return fmt::format("{}: {}", info.device.socket, std::strerror(refused));
  }
  out->peer = dataplane::address_text(peer);
  out->from =
      fmt::format("{} ({})", info.device.name, dataplane::address_text(info.device.device.ipv4));
  out->device_mtu = info.device.device.mtu;
  Measurement measurement(&asker, peer, out);
  error = measurement.ports(choose_ports(peer, options.ports), options.probes);
  if (!error.empty() || measurement.good_ports().empty()) return error;
  error = measurement.sizes(false, &out->there);
  return error.empty() ? measurement.sizes(true, &out->back) : error;
}

}  // namespace mprdma::tools
