#include "dataplane/daemon/server.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "dataplane/port/local_port.hpp"
#include "dataplane/sys/async_close.hpp"
#include "dataplane/sys/clock.hpp"
#include "dataplane/sys/pid_namespace.hpp"

namespace mprdma::dataplane::mprdmad {

namespace {

constexpr uint64_t kTagListen = DaemonServer::kTagBase;
constexpr uint64_t kTagConnection = DaemonServer::kTagBase * 2;  // and the connection's number
constexpr uint64_t kTagKind = ~(DaemonServer::kTagBase - 1);
// Bounds what one connection can cost in one turn.
constexpr int kMessagesPerTurn = 32;
constexpr int kAcceptsPerTurn = 16;
constexpr int kBacklog = 128;

bool names_queue_pair(const mprdma_abi_cm_command& command) {
  return (command.op == MPRDMA_ABI_CM_CONNECT || command.op == MPRDMA_ABI_CM_ACCEPT) &&
         command.params.qpn != 0;
}

bool ends_connection(const mprdma_abi_cm_command& command) {
  return command.op == MPRDMA_ABI_CM_DISCONNECT || command.op == MPRDMA_ABI_CM_DESTROY ||
         command.op == MPRDMA_ABI_CM_REJECT;
}

}  // namespace

DaemonServer::DaemonServer(ServerConfig config, Switch* sw, CmPump* cm, int epoll_fd)
    : config_(std::move(config)),
      switch_(sw),
      cm_(cm),
      epoll_fd_(epoll_fd),
      blocks_(config_.instance) {}

DaemonServer::~DaemonServer() {
  for (auto& [id, client] : connections_) hang_up(client.fd);
  if (listen_fd_ < 0) return;
  unlink(config_.socket.c_str());
  hang_up(listen_fd_);
}

Status DaemonServer::open(Time now) {
  if (config_.socket.empty() || config_.socket.size() >= sizeof(sockaddr_un::sun_path)) {
    return {ENAMETOOLONG, "the socket path '" + config_.socket +
                              "' is empty or longer than 107 bytes: shorten it"};
  }
  Status status = lock_.acquire(config_.socket);
  if (status.ok()) status = listen_at(config_.socket);
  if (status.ok()) blocks_.restore(lock_.load(), now);
  return status;
}

// Requires the lock: a socket that is there was left by a daemon that was killed.
Status DaemonServer::listen_at(const std::string& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) == 0) {
    if (!S_ISSOCK(status.st_mode)) {
      return {EEXIST, path + " exists and is not a socket: remove it"};
    }
    unlink(path.c_str());
  }
  const int fd = client::new_message_socket();
  if (fd < 0) return system_status("socket", errno);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  fchmod(fd, config_.uids.empty() ? 0600 : 0666);  // the mode that bind() gives the file
  const mode_t mask = umask(0);
  const int bound = bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  const int error = errno;
  umask(mask);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kTagListen;
  if (bound != 0 || listen(fd, kBacklog) != 0 ||
      epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) != 0) {
    Status refused = system_status(path, bound != 0 ? error : errno);
    close(fd);
    return refused;
  }
  listen_fd_ = fd;
  return {};
}

void DaemonServer::on_ready(uint64_t tag, uint32_t events, Time now) {
  if (tag == kTagListen) {
    accept_some(now);
    return reap(now);
  }
  const auto found = connections_.find(static_cast<uint32_t>(tag));
  if (found == connections_.end()) return;
  Connection& client = found->second;
  if ((tag & kTagKind) == kTagPort) {
    if (client.block != client::kNoBlock) switch_->wake_client(client.block, now);
    end_if_port_over(client);
  } else {
    if ((events & EPOLLOUT) != 0) write_some(client);
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) read_some(client, now);
  }
  reap(now);
}

void DaemonServer::service(Time now) {
  for (auto& [id, client] : connections_) {
    if (client.block == client::kNoBlock && now >= client.hello_until)
      client.over = any_over_ = true;
    end_if_port_over(client);
  }
  reap(now);
}

void DaemonServer::list(std::vector<ClientStatus>* out) const {
  out->clear();
  for (const auto& [id, client] : connections_) {
    if (client.block == client::kNoBlock) continue;
    out->push_back(
        {client.block, client.pid, client.program, *switch_->client_counters(client.block)});
  }
  std::sort(out->begin(), out->end(),
            [](const ClientStatus& a, const ClientStatus& b) { return a.block < b.block; });
}

// ---- Connections

bool DaemonServer::serves(uid_t uid) const {
  return uid == geteuid() ||
         std::find(config_.uids.begin(), config_.uids.end(), uid) != config_.uids.end();
}

void DaemonServer::accept_some(Time now) {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    const int fd = accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
      // Without free descriptors the connection would stay in the queue and wake us without end:
      // one without a Hello is closed instead.
      if (errno != EMFILE && errno != ENFILE) return;
      for (auto& [id, client] : connections_) {
        if (client.block == client::kNoBlock) client.over = any_over_ = true;
      }
      return;
    }
    accept_one(fd, now);
  }
}

void DaemonServer::accept_one(int fd, Time now) {
  while (last_id_ == 0 || connections_.contains(last_id_)) ++last_id_;
  Connection& client = connections_[last_id_];
  client.id = last_id_++;
  client.fd = fd;
  client.hello_until = now + kHelloTimeout;
  ucred peer{};
  socklen_t length = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || !serves(peer.uid)) {
    return refuse(client, client::Refusal::kUser, 0,
                  "mprdmad serves user " + std::to_string(geteuid()) + ", not user " +
                      std::to_string(peer.uid) + ": allow that one in [daemon] allowed_uids");
  }
  client.pid = peer.pid;
  client.uid = peer.uid;
  client.pid_namespace = pid_namespace(peer.pid);
  watch(client);
  // A regular client has sent its Hello by now.
  if (!client.over) read_some(client, now);
  evict_newcomer();
}

// Closes one of too many connections without a Hello: the oldest of the process that has most.
void DaemonServer::evict_newcomer() {
  std::map<pid_t, size_t> of_process;
  size_t newcomers = 0;
  for (const auto& [id, client] : connections_) {
    if (client.block != client::kNoBlock || client.over) continue;
    ++newcomers;
    ++of_process[client.pid];
  }
  if (newcomers <= kNewcomersMax) return;
  Connection* victim = nullptr;
  for (auto& [id, client] : connections_) {
    if (client.block != client::kNoBlock || client.over) continue;
    if (victim == nullptr || of_process[client.pid] > of_process[victim->pid] ||
        (client.pid == victim->pid && client.hello_until < victim->hello_until)) {
      victim = &client;
    }
  }
  victim->over = any_over_ = true;
}

void DaemonServer::watch(Connection& client) {
  uint32_t events = 0;
  // A client that does not read its answers may not ask for more.
  if (client.outgoing.size() < client::kOutgoingMax / 2) events |= EPOLLIN;
  if (!client.outgoing.empty()) events |= EPOLLOUT;
  if (events == client.watched) return;
  epoll_event event{};
  event.events = events;
  event.data.u64 = kTagConnection | client.id;
  const int operation = client.watched == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
  if (epoll_ctl(epoll_fd_, operation, client.fd, &event) != 0) client.over = any_over_ = true;
  client.watched = events;
}

void DaemonServer::read_some(Connection& client, Time now) {
  for (int i = 0; i < kMessagesPerTurn && !client.over; ++i) {
    if (client.outgoing.size() >= client::kOutgoingMax / 2) break;
    if (client.block == client::kNoBlock && now < newcomers_after_) break;
    if (client::brings_descriptor(client.fd)) return misbehaved(client, "a descriptor");
    client::Incoming in;
    const int error = client::receive_message(client.fd, &in);
    if (error == EAGAIN) break;
    if (error != 0) {
      client.over = any_over_ = true;
      return;
    }
    on_message(client, in, now);
  }
  if (!client.over) watch(client);
}

void DaemonServer::on_message(Connection& client, const client::Incoming& in, Time now) {
  client::Head head;
  const client::MessageFault fault = client::check_message(in.message(), &head);
  if (fault == client::MessageFault::kOtherVersion && client.block == client::kNoBlock) {
    return refuse(client, client::Refusal::kOtherVersion, head.serial,
                  "mprdmad speaks version " + std::to_string(client::kVersion) +
                      " of its protocol, this process version " + std::to_string(head.version) +
                      ": use one installation for both");
  }
  if (fault != client::MessageFault::kNone) return misbehaved(client, to_string(fault));
  if (head.type == client::MessageType::kQuery) return on_query(client, head.serial);
  if (head.type == client::MessageType::kPathProbe) {
    return on_probe(client, client::load_message<client::PathProbe>(in.message()), now);
  }
  if (head.type == client::MessageType::kHello && client.block == client::kNoBlock) {
    return on_hello(client, client::load_message<client::Hello>(in.message()), now);
  }
  if (head.type == client::MessageType::kCmCommand && client.block != client::kNoBlock) {
    return on_command(client, client::load_message<client::CmCommand>(in.message()), now);
  }
  if (head.type == client::MessageType::kRingRequest && client.block != client::kNoBlock) {
    return on_ring_request(client, client::load_message<client::RingRequest>(in.message()), now);
  }
  misbehaved(client, "a message out of turn");
}

void DaemonServer::misbehaved(Connection& client, const char* what) {
  ++counters_.nic_clients_misbehaved;
  client.over = any_over_ = true;
  say(client, what);
}

void DaemonServer::say(const Connection& client, const char* what) const {
  if (!config_.verbose) return;
  std::fprintf(stderr, "mprdmad: process %d (%s): %s\n", client.pid, client.program.c_str(), what);
}

void DaemonServer::end_if_port_over(Connection& client) {
  if (client.port == nullptr || client.over || !client.port->over()) return;
  if (client.port->violated()) return misbehaved(client, client.port->link_text());
  client.over = any_over_ = true;
}

// The queue may hold descriptors that were never received.
void DaemonServer::hang_up(int fd) const {
  epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
  shutdown(fd, SHUT_RDWR);
  close_elsewhere(fd);
}

void DaemonServer::end(Connection& client, Time now) {
  if (client.block != client::kNoBlock) {
    const Time start = cpu_time();
    cm_->agent().forget_client(client.id, now);
    switch_->remove_client(client.block, now);
    blocks_.release(client.block, now);
    forget_rings(client);
    ++counters_.nic_clients_gone;
    say(client, "gone");
    pause_newcomers(start);
  }
  switch_->prober().forget_client(client.id);
  hang_up(client.fd);
}

void DaemonServer::reap(Time now) {
  if (!any_over_) return;
  any_over_ = false;
  for (auto i = connections_.begin(); i != connections_.end();) {
    if (!i->second.over) {
      ++i;
      continue;
    }
    end(i->second, now);
    i = connections_.erase(i);
  }
}

// ---- Messages to clients

template <class T>
void DaemonServer::send(Connection& client, const T& message) {
  if (client.over) return;
  if (client.outgoing.empty()) {
    const int error = client::send_message(client.fd, message);
    if (error == 0) return;
    if (error != EAGAIN && error != ENOBUFS) {
      client.over = any_over_ = true;
      return;
    }
  }
  if (client.outgoing.size() >= client::kOutgoingMax) return misbehaved(client, "does not read");
  Message& queued = client.outgoing.emplace_back();
  std::memcpy(queued.bytes.data(), &message, sizeof message);
  queued.size = sizeof message;
  watch(client);
}

template void DaemonServer::send(Connection& client, const client::RingRefused& message);

void DaemonServer::write_some(Connection& client) {
  while (!client.outgoing.empty() && !client.over) {
    const Message& message = client.outgoing.front();
    const int error = client::send_bytes(client.fd, message.bytes.data(), message.size);
    if (error == EAGAIN || error == ENOBUFS) break;
    if (error != 0) client.over = any_over_ = true;
    client.outgoing.pop_front();
  }
  if (!client.over) watch(client);
}

void DaemonServer::refuse(Connection& client, client::Refusal reason, uint32_t serial,
                          const std::string& text) {
  auto refused = client::new_message<client::Refused>(serial);
  refused.reason = reason;
  client::set_text(&refused.text, text);
  client::send_message(client.fd, refused);
  ++counters_.nic_clients_refused;
  client.over = any_over_ = true;
  say(client, refused.text.data());
}

client::Device DaemonServer::device() const {
  client::Device device;
  device.ipv4 = address_.ipv4;
  device.prefix_bits = address_.prefix_bits;
  device.mac = address_.mac;
  device.link_up = switch_->link_up() ? 1 : 0;
  device.mtu = config_.mtu;
  if (Port* wire = switch_->wire()) {
    const PortInfo info = wire->info();
    device.can_corrupt = info.can_corrupt ? 1 : 0;
    device.link_mbps = config_.link_mbps != 0 ? config_.link_mbps : info.link_mbps;
  }
  return device;
}

void DaemonServer::set_device(const SwitchConfig& device_now) {
  address_ = device_now;
  auto state = client::new_message<client::PortState>(0);
  state.device = device();
  for (auto& [id, client] : connections_) {
    if (client.block != client::kNoBlock) send(client, state);
  }
}

void DaemonServer::set_uids(std::vector<uid_t> uids) {
  config_.uids = std::move(uids);
  (void)!chmod(config_.socket.c_str(), config_.uids.empty() ? 0600 : 0666);
}

void DaemonServer::deliver(const CmAgent::ClientEvent& event) {
  const auto found = connections_.find(event.client);
  if (found == connections_.end() || found->second.block == client::kNoBlock) return;
  auto message = client::new_message<client::CmEvent>(0);
  message.event = event.event;
  ++counters_.nic_cm_events;
  send(found->second, message);
}

void DaemonServer::deliver(const PathProber::Result& result) {
  const auto found = connections_.find(result.client);
  if (found == connections_.end()) return;
  const auto seen = [](const ProbeArrival& arrival) {
    return client::PathSeen{.bytes = arrival.bytes,
                            .source_port = arrival.source_port,
                            .hop_limit_sent = arrival.hop_limit_sent,
                            .hop_limit = arrival.hop_limit,
                            .ecn = arrival.ecn};
  };
  const ProbeOutcome& outcome = result.outcome;
  auto answer = client::new_message<client::PathAnswer>(outcome.serial);
  answer.error = outcome.error;
  answer.sequence = outcome.sequence;
  answer.rtt_ns = static_cast<uint64_t>(outcome.rtt.count_ns());
  answer.next_hop = outcome.next_hop;
  answer.there = seen(outcome.there);
  answer.back = seen(outcome.back);
  send(found->second, answer);
}

// ---- Messages from clients

void DaemonServer::on_query(Connection& client, uint32_t serial) {
  auto info = client::new_message<client::Info>(serial);
  info.instance = config_.instance;
  info.clients = static_cast<uint32_t>(clients());
  info.device = device();
  client::set_text(&info.name, config_.device_name);
  send(client, info);
}

void DaemonServer::on_probe(Connection& client, const client::PathProbe& probe, Time now) {
  // A probe keeps a connection without a Hello open; the number of such connections is bounded all
  // the same.
  client.hello_until = now + kHelloTimeout;
  const ProbeQuestion question{.serial = probe.head.serial,
                               .peer = probe.peer,
                               .sequence = probe.sequence,
                               .source_port = probe.source_port,
                               .bytes = probe.bytes,
                               .answer_bytes = probe.answer_bytes,
                               .ecn = probe.ecn};
  const int error = switch_->probe(client.id, question, now);
  if (error == 0) return;
  auto answer = client::new_message<client::PathAnswer>(probe.head.serial);
  answer.error = error;
  answer.sequence = probe.sequence;
  send(client, answer);
}

void DaemonServer::on_command(Connection& client, const client::CmCommand& command, Time now) {
  ++counters_.nic_cm_commands;
  const mprdma_abi_cm_command& in = command.command;
  auto reply = client::new_message<client::CmReply>(command.head.serial);
  if (names_queue_pair(in) && !client::is_in_block(Qpn(in.params.qpn), client.block)) {
    ++counters_.nic_cm_forged;
    say(client, "a connection in the name of somebody else's queue pair");
    reply.error = EPERM;
    return send(client, reply);
  }
  const bool had_connection = cm_->agent().has_connection(client.id, in.id);
  reply.error = cm_->agent().execute(client.id, in, &reply.result, now);
  // An acknowledgement that it has sent may not come behind the end of the connection, which the
  // agent says at the next turn. Once a turn is enough: what it sends meanwhile is sent beside the
  // command. Who has no connection that ended has nothing brought forward.
  if (reply.error == 0 && had_connection && ends_connection(in) && client.delivered != now) {
    client.delivered = now;
    switch_->deliver_sent(client.block, now);
  }
  send(client, reply);
}

}  // namespace mprdma::dataplane::mprdmad
