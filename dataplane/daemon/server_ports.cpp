// Admission of clients: a Hello becomes a block of queue pair numbers and a port.
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

#include "dataplane/daemon/server.hpp"
#include "dataplane/port/local_port.hpp"
#include "dataplane/sys/clock.hpp"

namespace mprdma::dataplane::mprdmad {

namespace {

// Identifies the process together with its user, so that a user cannot claim the block of another
// user's process.
uint64_t instance_of(uid_t uid, const client::Hello& hello) {
  const uint64_t instance = hello.instance ^ uint64_t { uid } * 0x9e3779b97f4a7c15;
  return instance == 0 ? 1 : instance;
}

}  // namespace

Time DaemonServer::cpu_time() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return Time{} + Duration::s(now.tv_sec) + Duration::ns(now.tv_nsec);
}

void DaemonServer::on_hello(Connection& client, const client::Hello& hello, Time now) {
  client.program = std::string(client::text_of(hello.program));
  for (char& c : client.program) {
    if (c < ' ' || c > '~') c = '?';
  }
  const bool named = hello.first_generation != client::kNoBlock;
  if (hello.instance == 0 ||
      (named && (hello.first_generation % client::kBlockGenerations != 0 ||
                 hello.first_generation / client::kBlockGenerations >= client::kBlocks))) {
    return refuse(client, client::Refusal::kBadHello, hello.head.serial,
                  "Hello names no instance, or a block that does not exist");
  }
  const Time start = cpu_time();
  const uint64_t instance = instance_of(client.uid, hello);
  // The process comes back before its old connection was seen to end.
  for (auto& [id, other] : connections_) {
    if (other.instance == instance && other.block != client::kNoBlock)
      other.over = any_over_ = true;
  }
  reap(now);
  if (blocks_of(client) >= kBlocksPerProcess) {
    return refuse(client, client::Refusal::kFull, hello.head.serial,
                  "this process has " + std::to_string(kBlocksPerProcess) +
                      " ports of the device: close one of them");
  }
  const uint32_t wanted =
      named ? hello.first_generation / client::kBlockGenerations : client::kNoBlock;
  const uint32_t block = blocks_.assign(instance, wanted, now);
  if (block == client::kNoBlock) {
    return refuse(client, client::Refusal::kFull, hello.head.serial,
                  std::to_string(client::kBlocks) + " processes use the device: end one of them");
  }
  if (!give_port(client, hello, block, now)) blocks_.release(block, now);
  pause_newcomers(start);
}

uint32_t DaemonServer::blocks_of(const Connection& client) const {
  uint32_t its = 0;
  for (const auto& [id, other] : connections_) {
    if (other.block != client::kNoBlock && other.pid == client.pid) ++its;
  }
  return client.pid == 0 ? 0 : its;
}

void DaemonServer::pause_newcomers(Time since) {
  const Time now = clock_now();
  const Duration others = (cpu_time() - since) * kShareOfOthers;
  newcomers_after_ = std::min(std::max(newcomers_after_, now) + others, now + kNewcomersWaitMax);
}

bool DaemonServer::give_port(Connection& client, const client::Hello& hello, uint32_t block,
                             Time now) {
  int sockets[2];
  PortResult result;
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets) != 0) {
    refuse(client, client::Refusal::kNoMemory, hello.head.serial,
           system_status("mprdmad: socketpair", errno).text);
    return false;
  }
  LocalPort::Options options;
  options.role = local::Role::kAdopted;
  options.socket = sockets[0];
  options.slots = config_.slots;
  options.mac = address_.mac;
  options.stranger = true;
  result = LocalPort::open(options);
  epoll_event event{};
  event.events = EPOLLIN | static_cast<uint32_t>(EPOLLET);
  event.data.u64 = kTagPort | client.id;
  if (!result || epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, result.port->notify_fd(), &event) != 0) {
    close(sockets[1]);
    refuse(client, client::Refusal::kNoMemory, hello.head.serial,
           result ? system_status("mprdmad: epoll_ctl", errno).text
                  : "mprdmad: " + result.status.text);
    return false;
  }
  auto welcome = client::new_message<client::Welcome>(hello.head.serial);
  welcome.instance = config_.instance;
  welcome.first_generation = block * client::kBlockGenerations;
  welcome.device = device();
  client::set_text(&welcome.name, config_.device_name);
  const int error = client::send_message(client.fd, welcome, sockets[1]);
  close(sockets[1]);
  if (error != 0) {
    client.over = any_over_ = true;
    return false;
  }
  client.block = block;
  client.instance = instance_of(client.uid, hello);
  client.port = static_cast<LocalPort*>(result.port.get());
  switch_->add_client(block, std::move(result.port), now);
  lock_.store(block, client.instance);
  ++counters_.nic_clients_served;
  say(client, "served");
  return true;
}

}  // namespace mprdma::dataplane::mprdmad
