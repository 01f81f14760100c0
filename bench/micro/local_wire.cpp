// What the local wire itself can do: a bare copy-at-both-ends probe of LocalPort between two
// processes, with the same three jobs over kernel TCP on the loopback beside it.
//
//   local_wire [--seconds S] [--rounds N] [--sizes BYTES,...] [--json FILE] [--local]
//
// --local leaves TCP out, and with it the claims, which compare the two.
//
//   stream     64 KiB messages as packets of 4096 bytes: application buffer -> frame -> wire ->
//              application buffer (goodput at the receiver)
//   rate       messages of 64 bytes, one packet each, copied at both ends
//   ping-pong  8 bytes there and back; half of the round trip; both ends poll
//   sizes      instead of these: messages a second for each size, in packets of 4096 bytes at most,
//              copied at both ends; no TCP
//
// Rounds of the two wires alternate, because the two virtual CPUs of a cloud machine move between
// cores within a second: compare the ratios, not the figures. Both ends yield the CPU when idle.
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/revision.hpp"
#include "bench/micro/two_processes.hpp"
#include "dataplane/port/local_port.hpp"

namespace {

using mprdma::Duration;
using mprdma::Time;
using mprdma::bench::die;
using mprdma::bench::Idle;
using mprdma::bench::now;
using mprdma::bench::rate_of;
using mprdma::bench::with_child;
using mprdma::dataplane::kBurst;
using mprdma::dataplane::LocalPort;
using mprdma::dataplane::Port;
using mprdma::dataplane::RxFrame;
using mprdma::dataplane::TxFrame;

constexpr uint32_t kHeaderBytes = 54;  // Ethernet, IPv4, UDP, BTH: what a packet carries at least
constexpr uint32_t kPacketBytes = 4096;
constexpr size_t kMessageBytes = 65536;
constexpr size_t kBufferBytes = 1 << 20;  // the application's memory at either end

// ---- LocalPort

// One end of the wire, with the application's memory beside it.
class LocalEnd {
 public:
  LocalEnd(const std::string& path, mprdma::dataplane::local::Role role) : memory_(kBufferBytes) {
    LocalPort::Options options;
    options.path = path;
    options.role = role;
    auto result = LocalPort::open(options);
    if (!result) {
      std::fprintf(stderr, "local_wire: %s\n", result.status.text.c_str());
      std::exit(1);
    }
    port_ = std::move(result.port);
    const Time deadline = now() + Duration::s(10);
    while (!port_->link_up()) {
      port_->service(now());
      if (now() > deadline) die("no peer on the local port");
      sched_yield();
    }
  }

  // Sends up to n packets from the application's memory; gives how many went.
  unsigned send(unsigned n, uint32_t payload_bytes) {
    TxFrame frames[kBurst];
    const unsigned reserved = port_->tx_reserve(frames, n);
    for (unsigned i = 0; i < reserved; ++i) {
      std::memset(frames[i].payload - kHeaderBytes, 0, kHeaderBytes);
      std::memcpy(frames[i].payload, next_memory(payload_bytes), payload_bytes);
      frames[i].header_bytes = kHeaderBytes;
      frames[i].frame_bytes = kHeaderBytes + payload_bytes;
    }
    port_->tx_commit(frames, reserved);
    port_->flush();
    return reserved;
  }

  // Takes up to a burst into the application's memory; gives how many bytes of payload.
  uint64_t receive(unsigned* packets) {
    RxFrame frames[kBurst];
    uint64_t cookies[kBurst];
    const unsigned taken = port_->rx_burst(frames, kBurst);
    uint64_t bytes = 0;
    for (unsigned i = 0; i < taken; ++i) {
      const uint32_t payload_bytes = frames[i].length - kHeaderBytes;
      std::memcpy(next_memory(payload_bytes), frames[i].data + kHeaderBytes, payload_bytes);
      bytes += payload_bytes;
      cookies[i] = frames[i].cookie;
    }
    if (taken > 0) port_->rx_release(cookies, taken);
    if (taken > 0) port_->flush();
    idle_.found(taken > 0);
    *packets = taken;
    return bytes;
  }

  void found(bool something) { idle_.found(something); }

 private:
  unsigned char* next_memory(uint32_t bytes) {
    if (position_ + bytes > memory_.size()) position_ = 0;
    unsigned char* here = memory_.data() + position_;
    position_ += bytes;
    return here;
  }

  std::unique_ptr<Port> port_;
  std::vector<unsigned char> memory_;
  size_t position_ = 0;
  Idle idle_;
};

class Wire {
 public:
  Wire() {
    char name[] = "/tmp/mprdma-probe-XXXXXX";
    if (mkdtemp(name) == nullptr) die("mkdtemp");
    directory_ = name;
  }
  ~Wire() {
    for (const char* file : {"/wire", "/wire.lock"}) unlink((directory_ + file).c_str());
    rmdir(directory_.c_str());
  }
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  [[nodiscard]] LocalEnd listener() const {
    return {path(), mprdma::dataplane::local::Role::kListen};
  }
  [[nodiscard]] LocalEnd dialler() const { return {path(), mprdma::dataplane::local::Role::kDial}; }

 private:
  [[nodiscard]] std::string path() const { return directory_ + "/wire"; }
  std::string directory_;
};

// Packets per second at the receiver.
double local_one_way(uint32_t payload_bytes, unsigned burst, Duration time) {
  const Wire wire;
  return with_child(
      [&] {
        LocalEnd end = wire.listener();
        for (;;) end.found(end.send(burst, payload_bytes) > 0);
      },
      [&] {
        LocalEnd end = wire.dialler();
        return rate_of(
            [&] {
              unsigned packets = 0;
              end.receive(&packets);
              return uint64_t{packets};
            },
            time);
      });
}

// Round trips per second.
double local_ping_pong(Duration time) {
  const Wire wire;
  const auto bounce = [](LocalEnd& end) {
    unsigned packets = 0;
    do end.receive(&packets);
    while (packets == 0);
    return packets;
  };
  return with_child(
      [&] {
        LocalEnd end = wire.listener();
        for (;;) end.send(bounce(end), 8);
      },
      [&] {
        LocalEnd end = wire.dialler();
        return rate_of(
            [&] {
              end.send(1, 8);
              return uint64_t{bounce(end)};
            },
            time);
      });
}

// ---- Kernel TCP over the loopback

// A connected pair, made before the fork; the kernel picks the port.
struct TcpPair {
  int parent = -1;
  int child = -1;

  TcpPair() {
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* any = reinterpret_cast<sockaddr*>(&address);
    if (listener < 0 || bind(listener, any, length) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, any, &length) != 0) {
      die("TCP socket");
    }
    parent = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(parent, any, length) != 0) die("TCP connect");
    child = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (child < 0) die("TCP accept");
    close(listener);
    const int one = 1;
    for (const int fd : {parent, child}) {
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    }
  }
  ~TcpPair() {
    close(parent);
    close(child);
  }
  TcpPair(const TcpPair&) = delete;
  TcpPair& operator=(const TcpPair&) = delete;
};

// Bytes per second at the receiver, for messages of that size, one system call each to send.
double tcp_one_way(size_t message_bytes, Duration time) {
  const TcpPair pair;
  std::vector<char> memory(kBufferBytes);
  return with_child(
      [&] {
        size_t at = 0;
        for (;;) {
          if (at + message_bytes > memory.size()) at = 0;
          if (send(pair.child, memory.data() + at, message_bytes, MSG_NOSIGNAL) < 0) return;
          at += message_bytes;
        }
      },
      [&] {
        size_t at = 0;
        return rate_of(
            [&] {
              if (at + kMessageBytes > memory.size()) at = 0;
              const ssize_t n = recv(pair.parent, memory.data() + at, kMessageBytes, 0);
              if (n <= 0) die("TCP receive");
              at += static_cast<size_t>(n);
              return static_cast<uint64_t>(n);
            },
            time);
      });
}

// Round trips per second; both ends poll, or both ends sleep.
double tcp_ping_pong(bool polling, Duration time) {
  const TcpPair pair;
  const auto take = [polling](int fd) {
    char bytes[8];
    Idle idle;
    size_t have = 0;
    while (have < sizeof bytes) {
      const ssize_t n = recv(fd, bytes + have, sizeof bytes - have, polling ? MSG_DONTWAIT : 0);
      if (n > 0) have += static_cast<size_t>(n);
      if (n == 0 || (n < 0 && errno != EAGAIN)) die("TCP receive");
      idle.found(n > 0);
    }
  };
  const auto give = [](int fd) {
    if (send(fd, "12345678", 8, MSG_NOSIGNAL) != 8) die("TCP send");
  };
  return with_child(
      [&] {
        for (;;) {
          take(pair.child);
          give(pair.child);
        }
      },
      [&] {
        return rate_of(
            [&] {
              give(pair.parent);
              take(pair.parent);
              return uint64_t{1};
            },
            time);
      });
}

// ---- The report

double median(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return samples[samples.size() / 2];
}

struct Series {
  std::string id;
  std::string what;
  const char* unit;
  std::function<double()> run;
  std::vector<double> samples = {};
};

std::vector<Series> all_series(Duration time) {
  const auto gbps = [](double bytes_per_s) { return bytes_per_s * 8 / 1e9; };
  const auto half_us = [](double round_trips_per_s) { return 0.5e6 / round_trips_per_s; };
  return {
      {"local.stream", "LocalPort, 64 KiB messages", "Gb/s",
       [=] { return gbps(local_one_way(kPacketBytes, 16, time) * kPacketBytes); }},
      {"tcp.stream", "kernel TCP, 64 KiB messages", "Gb/s",
       [=] { return gbps(tcp_one_way(kMessageBytes, time)); }},
      {"local.rate", "LocalPort, 64 B messages", "M/s",
       [=] { return local_one_way(64, kBurst, time) / 1e6; }},
      {"tcp.rate", "kernel TCP, 64 B messages", "M/s",
       [=] { return tcp_one_way(64, time) / 64 / 1e6; }},
      {"local.latency", "LocalPort, 8 B, half round trip", "us",
       [=] { return half_us(local_ping_pong(time)); }},
      {"tcp.latency", "kernel TCP, 8 B, polling", "us",
       [=] { return half_us(tcp_ping_pong(true, time)); }},
      {"tcp.latency_blocking", "kernel TCP, 8 B, blocking", "us",
       [=] { return half_us(tcp_ping_pong(false, time)); }},
  };
}

// Messages of one size: a packet, or as many full packets as it takes.
Series size_series(uint32_t bytes, Duration time) {
  const uint32_t packet = std::min(bytes, kPacketBytes);
  const uint32_t packets = bytes / packet;
  const std::string text = std::to_string(bytes);
  return {"local.size." + text, "LocalPort, " + text + " B messages", "M/s",
          [=] { return local_one_way(packet, kBurst, time) / packets / 1e6; }};
}

nlohmann::json machine() {
  utsname name{};
  uname(&name);
  std::string model = "unknown";
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (!line.starts_with("model name")) continue;
    model = line.substr(line.find(": ") + 2);
    break;
  }
  return {{"cpu", model}, {"cpus", sysconf(_SC_NPROCESSORS_ONLN)}, {"kernel", name.release}};
}

struct Arguments {
  double seconds = 1.0;  // for each kind, over all rounds
  int rounds = 3;
  std::vector<uint32_t> sizes = {};  // of messages; none: the other series
  const char* json = nullptr;
  bool local_only = false;
};

// "64,4096,65536": multiples of a packet above it. Empty if it is something else.
std::vector<uint32_t> parse_sizes(const char* text) {
  std::vector<uint32_t> sizes;
  for (const char* at = text; *at != '\0';) {
    char* end = nullptr;
    const unsigned long bytes = std::strtoul(at, &end, 10);
    const bool whole = bytes <= kPacketBytes || bytes % kPacketBytes == 0;
    if (end == at || bytes == 0 || bytes > kBufferBytes || !whole) return {};
    sizes.push_back(static_cast<uint32_t>(bytes));
    at = *end == ',' ? end + 1 : end;
  }
  return sizes;
}

[[noreturn]] void refuse() {
  std::fprintf(stderr,
               "usage: local_wire [--seconds S] [--rounds N] [--sizes BYTES,...] [--json FILE]"
               " [--local]\n"
               "Sizes above 4096 are multiples of it.\n");
  std::exit(2);
}

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--local") {
      arguments.local_only = true;
      continue;
    }
    const char* value = i + 1 < argc ? argv[++i] : nullptr;
    if (option == "--seconds" && value != nullptr) {
      arguments.seconds = std::atof(value);
    } else if (option == "--rounds" && value != nullptr) {
      arguments.rounds = std::atoi(value);
    } else if (option == "--sizes" && value != nullptr) {
      arguments.sizes = parse_sizes(value);
      if (arguments.sizes.empty()) refuse();
    } else if (option == "--json" && value != nullptr) {
      arguments.json = value;
    } else {
      refuse();
    }
  }
  arguments.rounds = std::clamp(arguments.rounds, 1, 99);
  arguments.seconds = std::clamp(arguments.seconds, 0.1, 60.0);
  return arguments;
}

nlohmann::json claim(const char* id, const char* what, double value) {
  return {{"id", id},       {"what", what}, {"target", ">= 1"},
          {"value", value}, {"unit", "x"},  {"ok", value >= 1}};
}

std::vector<Series> wanted_series(const Arguments& arguments) {
  const auto time = Duration::ns(static_cast<int64_t>(arguments.seconds * 1e9) / arguments.rounds);
  if (arguments.sizes.empty()) return all_series(time);
  std::vector<Series> series;
  for (const uint32_t bytes : arguments.sizes) series.push_back(size_series(bytes, time));
  return series;
}

void leave_tcp_out(std::vector<Series>& series) {
  std::erase_if(series,
                [](const Series& s) { return !std::string_view(s.id).starts_with("local."); });
}

// Of all_series().
nlohmann::json claims_of(const std::vector<Series>& series) {
  const auto value = [&](size_t i) { return median(series[i].samples); };
  // TCP by whichever of its two ways is the faster here.
  const double tcp_latency = std::min(value(5), value(6));
  return {claim("probe.stream", "LocalPort / kernel TCP, 64 KiB goodput", value(0) / value(1)),
          claim("probe.rate", "LocalPort / kernel TCP, 64 B messages", value(2) / value(3)),
          claim("probe.latency", "kernel TCP / LocalPort, 8 B latency", tcp_latency / value(4))};
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse(argc, argv);
  std::vector<Series> series = wanted_series(arguments);
  if (arguments.local_only) leave_tcp_out(series);
  for (int round = 0; round < arguments.rounds; ++round) {
    for (Series& s : series) s.samples.push_back(s.run());
  }
  nlohmann::json report = {{"schema", 1},
                           {"command", "local_wire"},
                           {"revision", mprdma::revision()},
                           {"machine", machine()},
                           {"constants",
                            {{"packet_bytes", kPacketBytes},
                             {"message_bytes", kMessageBytes},
                             {"buffer_bytes", kBufferBytes},
                             {"seconds", arguments.seconds},
                             {"rounds", arguments.rounds}}}};
  for (const Series& s : series) {
    std::printf("%-34s %10.3f %s\n", s.what.c_str(), median(s.samples), s.unit);
    report["series"][s.id] = {{"unit", s.unit}, {"samples", s.samples}};
  }
  const bool claims = arguments.sizes.empty() && !arguments.local_only;
  report["claims"] = claims ? claims_of(series) : nlohmann::json::array();
  for (const auto& c : report["claims"]) {
    std::printf("%-50s %8.2f x\n", c["what"].get<std::string>().c_str(), c["value"].get<double>());
  }
  if (arguments.json != nullptr) {
    std::ofstream file(arguments.json);
    file << report.dump(2) << "\n";
    if (!file.flush()) die(arguments.json);
  }
  return 0;
}
