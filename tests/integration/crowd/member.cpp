#include "tests/integration/crowd/member.hpp"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "tests/integration/crowd/ids.hpp"

namespace mprdma::crowd {

namespace {

constexpr int kTickMs = 10;
constexpr int kResolveMs = 20000;
constexpr int kCqEntries = 1024;
constexpr int kBacklog = 128;

// Writes the file under another name and renames it, so that a reader never sees a part.
void write_file(const std::string& path, const std::string& text) {
  const std::string unfinished = path + ".new";
  std::ofstream(unfinished) << text;
  if (std::rename(unfinished.c_str(), path.c_str()) != 0) fail("%s", path.c_str());
}

}  // namespace

Member::Member(const Args& args) : args_(args), channel_(rdma_create_event_channel()) {
  if (channel_ == nullptr) fail("rdma_create_event_channel: %s", std::strerror(errno));
  hold(RDMA_PS_TCP, true);
  open_device(held_.front()->verbs);
  hold(RDMA_PS_UDP, true);
  hold(RDMA_PS_TCP, false);
  write_ports();
  for (const uint32_t peer : args.peers) dial(peer, true);
  if (!args.peers.empty()) dial(args.peers.front(), false);
}

Member::~Member() {
  connections_.clear();
  for (rdma_cm_id* id : held_) rdma_destroy_id(id);
  ibv_destroy_cq(cq_);
  ibv_destroy_comp_channel(completions_);
  ibv_dealloc_pd(pd_);
  rdma_destroy_event_channel(channel_);
}

void Member::open_device(ibv_context* context) {
  pd_ = ibv_alloc_pd(context);
  completions_ = ibv_create_comp_channel(context);
  if (pd_ == nullptr || completions_ == nullptr) fail("no protection domain, or no channel");
  cq_ = ibv_create_cq(context, kCqEntries, nullptr, completions_, 0);
  if (cq_ == nullptr || ibv_req_notify_cq(cq_, 0) != 0) fail("no completion queue");
}

// Makes an id that owns a port.
void Member::hold(uint16_t space, bool listens) {
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(channel_, &id, nullptr, static_cast<rdma_port_space>(space)) != 0) {
    fail("rdma_create_id: %s", std::strerror(errno));
  }
  const uint16_t port = held_.empty() ? args_.port : 0;
  held_.push_back(id);
  sockaddr_in address = socket_address(args_.address, port);
  if (rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&address)) != 0) {
    fail("port %u: %s", port, std::strerror(errno));
  }
  if (listens && rdma_listen(id, kBacklog) != 0) fail("rdma_listen: %s", std::strerror(errno));
}

// Writes the ports of this process; other members claim some of them when it is dead.
void Member::write_ports() {
  std::ostringstream text;
  text << args_.address;
  for (rdma_cm_id* id : held_) {
    text << (id->ps == RDMA_PS_UDP ? " udp:" : " tcp:") << ntohs(rdma_get_src_port(id));
  }
  write_file(path("port." + std::to_string(args_.number)), text.str());
}

// Looks the peer's listener up; without `connects` that is all.
void Member::dial(uint32_t peer, bool connects) {
  const std::string name = path("port." + std::to_string(peer));
  while (access(name.c_str(), R_OK) != 0) usleep(kTickMs * 1000);
  std::ifstream file(name);
  std::string address;
  std::string port;
  file >> address >> port;
  sockaddr_in there =
      socket_address(address, static_cast<uint16_t>(std::stoul(port.substr(sizeof("tcp:") - 1))));
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP) != 0) fail("rdma_create_id");
  if (connects) {
    dialling_[id] = peer;
  } else {
    held_.push_back(id);
  }
  if (rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&there), kResolveMs) != 0) {
    fail("rdma_resolve_addr of %u: %s", peer, std::strerror(errno));
  }
}

void Member::run() {
  while (!stopped()) {
    std::array<pollfd, 2> files{pollfd{channel_->fd, POLLIN, 0},
                                pollfd{completions_->fd, POLLIN, 0}};
    poll(files.data(), files.size(), kTickMs);
    if ((files[0].revents & POLLIN) != 0) process_events();
    if ((files[1].revents & POLLIN) != 0) take_completions();
    look_at_step();
  }
}

// ---- Events of rdma_cm

void Member::process_events() {
  rdma_cm_event* event = nullptr;
  if (rdma_get_cm_event(channel_, &event) != 0) fail("rdma_get_cm_event");
  if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
    on_request(*event);
  } else {
    on_event(*event);
  }
  rdma_ack_cm_event(event);
}

void Member::on_event(const rdma_cm_event& event) {
  const auto found =
      event.id->qp != nullptr ? connections_.find(event.id->qp->qp_num) : connections_.end();
  switch (event.event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      if (rdma_resolve_route(event.id, kResolveMs) != 0) fail("rdma_resolve_route");
      return;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      on_route(event.id);
      return;
    case RDMA_CM_EVENT_ESTABLISHED:
      found->second->on_established();
      ++established_;
      return;
    case RDMA_CM_EVENT_DISCONNECTED:
      read_step();
      if (!stopped() && !step_.dead.contains(found->second->peer())) {
        fail("%u disconnected", found->second->peer());
      }
      found->second->on_disconnected();
      return;
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
      return;
    default:
      read_step();
      if (!stopped()) fail("%s, status %d", rdma_event_str(event.event), event.status);
  }
}

Connection& Member::add(rdma_cm_id* id, uint32_t peer) {
  auto made = std::make_unique<Connection>(id, pd_, cq_, args_.number, peer);
  made->begin_step();
  return *(connections_[made->qpn()] = std::move(made));
}

void Member::on_request(const rdma_cm_event& event) {
  uint32_t peer = 0;
  if (event.param.conn.private_data_len < sizeof(peer)) fail("a request of whom?");
  std::memcpy(&peer, event.param.conn.private_data, sizeof(peer));
  add(event.id, peer);
  rdma_conn_param param{};
  param.rnr_retry_count = 7;
  if (rdma_accept(event.id, &param) != 0) fail("rdma_accept of %u: %s", peer, strerror(errno));
}

void Member::on_route(rdma_cm_id* id) {
  const auto found = dialling_.find(id);
  if (found == dialling_.end()) return;
  add(id, found->second);
  rdma_conn_param param{};
  param.private_data = &args_.number;
  param.private_data_len = sizeof(args_.number);
  param.retry_count = 7;
  param.rnr_retry_count = 7;
  if (rdma_connect(id, &param) != 0) fail("rdma_connect to %u", found->second);
}

// ---- Completions

void Member::take_completions() {
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  if (ibv_get_cq_event(completions_, &cq, &context) != 0) fail("ibv_get_cq_event");
  ibv_ack_cq_events(cq, 1);
  if (ibv_req_notify_cq(cq, 0) != 0) fail("ibv_req_notify_cq");
  std::array<ibv_wc, 16> found;
  for (int count = 0; (count = ibv_poll_cq(cq, found.size(), found.data())) != 0;) {
    if (count < 0) fail("ibv_poll_cq");
    for (int i = 0; i < count; ++i) {
      const ibv_wc& wc = found.at(static_cast<size_t>(i));
      const auto at = connections_.find(wc.qp_num);
      if (at == connections_.end()) fail("a completion of a queue pair that is no more");
      if (wc.status != IBV_WC_SUCCESS) read_step();
      if (stopped()) return;
      if (at->second->on_completion(wc)) continue;
      if (!step_.dead.contains(at->second->peer())) {
        fail("to %u: %s", at->second->peer(), ibv_wc_status_str(wc.status));
      }
    }
  }
}

// ---- Steps

void Member::read_step() {
  std::ifstream file(path("step"));
  Step read;
  if (!(file >> read.number >> read.messages) || read.number == step_.number) return;
  for (uint32_t dead = 0; file >> dead;) read.dead.insert(dead);
  step_ = read;
  for (auto& [qpn, connection] : connections_) connection->begin_step();
}

void Member::look_at_step() {
  read_step();
  bury();
  if (step_.number == done_ || step_.number == ~0u || stopped() || !step_is_done()) return;
  done_ = step_.number;
  write_file(path("done." + std::to_string(args_.number) + "." + std::to_string(done_)), "");
}

bool Member::step_is_done() const {
  if (established_ < args_.peers.size() + args_.incoming) return false;
  for (const auto& [qpn, connection] : connections_) {
    if (step_.dead.contains(connection->peer()) || !connection->established() ||
        connection->moved() < step_.messages) {
      return false;
    }
  }
  return true;
}

// Cleans up connections to dead members.
void Member::bury() {
  std::erase_if(connections_, [this](const auto& entry) {
    return entry.second->ended() && step_.dead.contains(entry.second->peer());
  });
}

}  // namespace mprdma::crowd
