#include "tools/doctor/path_probe.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/ipv4.hpp"
#include "base/prng.hpp"
#include "dataplane/client/message_socket.hpp"
#include "dataplane/sys/address_text.hpp"
#include "dataplane/sys/clock.hpp"
#include "tools/run/daemon_client.hpp"
#include "wire/probe_mad.hpp"

namespace mprdma::tools {

namespace {

namespace client = dataplane::client;
using dataplane::clock_now;

// Probes are sent one at a time, so that they do not queue behind one another, but a lost probe
// does not delay the next one. The peer answers one probe in a millisecond in the long run.
constexpr Duration kGapMin = Duration::ms(2);
constexpr Duration kGapMax = Duration::ms(20);
constexpr size_t kOpenMax = 24;
// Limit for the silence of the daemon, which ends every probe by itself.
constexpr Duration kSilenceMax = Duration::s(20);
constexpr unsigned kRefusalsMax = 1000;
constexpr size_t kSizePorts = 8;

// A connection to the daemon, and the probes that are sent over it.
class Asker {
 public:
  Asker() = default;
  Asker(const Asker&) = delete;
  Asker& operator=(const Asker&) = delete;
  ~Asker() {
    if (fd_ >= 0) close(fd_);
  }

  int connect(const std::string& socket) { return connect_daemon(socket, &fd_, nullptr); }
  // Adds a sample for each probe of the plan, in its order.
  Status ask(std::vector<client::PathProbe> plan, std::vector<PathSample>* out);

 private:
  Status read_answers();
  void take(const client::PathAnswer& answer);

  int fd_ = -1;
  std::vector<PathSample> samples_;
  std::vector<bool> ended_;
  std::vector<size_t> to_ask_;  // in reverse order
  size_t open_ = 0;
  unsigned refusals_ = 0;
};

Status Asker::ask(std::vector<client::PathProbe> plan, std::vector<PathSample>* out) {
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
      probe.head = client::new_message<client::PathProbe>(static_cast<uint32_t>(index + 1)).head;
      samples_[index].asked = probe;
      if (client::send_message(fd_, probe) != 0)
        return {ECONNRESET, "mprdmad has ended the connection"};
      last_sent = now;
      ++open_;
      continue;
    }
    if (now - last_heard > kSilenceMax) return {ETIMEDOUT, "mprdmad does not answer"};
    const Duration wait =
        to_ask_.empty() || open_ >= kOpenMax ? Duration::ms(100) : std::max(next - now, Duration());
    pollfd waiting{fd_, POLLIN, 0};
    if (poll(&waiting, 1, static_cast<int>(wait.count_ns() / 1'000'000) + 1) <= 0) continue;
    last_heard = clock_now();
    Status status = read_answers();
    if (!status.ok()) return status;
  }
  out->insert(out->end(), samples_.begin(), samples_.end());
  return {};
}

Status Asker::read_answers() {
  for (;;) {
    client::Incoming in;
    const int error = client::receive_message(fd_, &in);
    if (error == EAGAIN) return {};
    if (error != 0) {
      return {ECONNRESET,
              "mprdmad has ended the connection: is it of this version, and does it serve this "
              "user?"};
    }
    if (in.passed_fd >= 0) close(in.passed_fd);
    client::Head head;
    if (client::check_message(in.message(), &head) != client::MessageFault::kNone) {
      return {EPROTO, "mprdmad says what nobody understands: use one installation for both"};
    }
    if (head.type == client::MessageType::kRefused) {
      const auto refused = client::load_message<client::Refused>(in.message());
      return {EACCES, std::string(client::text_of(refused.text))};
    }
    if (head.type != client::MessageType::kPathAnswer) continue;
    take(client::load_message<client::PathAnswer>(in.message()));
    if (refusals_ > kRefusalsMax) return {EAGAIN, "mprdmad is asked too much by others: try again"};
  }
}

void Asker::take(const client::PathAnswer& answer) {
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

// Draws ports from the range of virtual paths. Steps are not even, because a hash may not see even
// steps. The same peer gets the same ports in every run, so that two runs can be compared.
std::vector<uint16_t> choose_ports(Ipv4 peer, unsigned count) {
  Prng prng(peer.value());
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
  Measurement(Asker* asker, Ipv4 peer, PathMeasured* out) : asker_(asker), peer_(peer), out_(out) {}

  // The first round tells whether anybody answers; the other rounds follow one another without a
  // pause.
  Status ports(const std::vector<uint16_t>& ports, unsigned rounds) {
    std::vector<client::PathProbe> plan;
    plan.reserve(ports.size());
    for (const uint16_t port : ports) plan.push_back(probe(port, wire::kProbeBytesMin, false));
    Status status = asker_->ask(std::move(plan), &out_->ports);
    if (!status.ok() || good_ports().empty()) return status;
    plan.clear();
    for (unsigned round = 1; round < rounds; ++round) {
      for (const uint16_t port : ports) plan.push_back(probe(port, wire::kProbeBytesMin, false));
    }
    return asker_->ask(std::move(plan), &out_->ports);
  }

  // Uses only ports that answered: on a broken path all long packets would seem to be dropped.
  Status sizes(bool long_answers, std::vector<PathSample>* out) {
    std::vector<uint16_t> ports = good_ports();
    if (ports.size() > kSizePorts) ports.resize(kSizePorts);
    std::vector<client::PathProbe> plan;
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
  client::PathProbe probe(uint16_t port, size_t bytes, bool long_answer) {
    client::PathProbe probe;
    probe.peer = peer_;
    probe.sequence = ++sequence_;
    probe.source_port = port;
    probe.bytes = static_cast<uint16_t>(bytes);
    probe.answer_bytes = long_answer ? probe.bytes : uint16_t{wire::kProbeBytesMin};
    probe.ecn = static_cast<uint8_t>(wire::Ecn::kEct0);
    return probe;
  }

  Asker* asker_;
  Ipv4 peer_;
  PathMeasured* out_;
  uint32_t sequence_ = 0;
};

// Finds the daemon that asks: the first one that answers at one of the places.
Status find_asked(const PathOptions& options, DaemonInfo* out) {
  std::vector<std::string> places = {options.socket};
  if (options.socket.empty()) {
    const auto environment = [](const char* name) { return std::getenv(name); };
    Status status = daemon_places(environment, options.runtime_directory, &places);
    if (!status.ok()) return status;
  }
  std::string said;
  for (const std::string& place : places) {
    const int error = query_daemon(place, out);
    if (error == 0) return {};
    said += fmt::format("{}{} ({})", said.empty() ? "" : ", ", place, std::strerror(error));
  }
  return {
      ENOENT,
      fmt::format("no mprdmad answers at {}: --path asks through mprdmad, start one with --port "
                  "(mprdmad(8)), or name it with --socket",
                  said)};
}

}  // namespace

Status measure_path(const PathOptions& options, PathMeasured* out) {
  Ipv4 peer;
  uint32_t bits = 0;
  if (!dataplane::parse_address(options.peer, &peer, &bits)) {
    return {EINVAL, fmt::format("--path {}: expected the IPv4 address of a peer, like 10.73.0.2",
                                options.peer)};
  }
  DaemonInfo info;
  Status status = find_asked(options, &info);
  if (!status.ok()) return status;
  Asker asker;
  if (const int refused = asker.connect(info.device.socket); refused != 0) {
    return system_status(info.device.socket, refused);
  }
  out->peer = dataplane::address_text(peer);
  out->from =
      fmt::format("{} ({})", info.device.name, dataplane::address_text(info.device.device.ipv4));
  out->device_mtu = info.device.device.mtu;
  Measurement measurement(&asker, peer, out);
  status = measurement.ports(choose_ports(peer, options.ports), options.probes);
  if (!status.ok() || measurement.good_ports().empty()) return status;
  status = measurement.sizes(false, &out->there);
  return status.ok() ? measurement.sizes(true, &out->back) : status;
}

}  // namespace mprdma::tools
