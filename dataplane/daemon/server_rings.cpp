// Direct rings (protocol.hpp): the daemon makes a connected pair of sockets and gives an end to
// each of two clients. It keeps neither, and sees nothing of what goes through the ring.
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "dataplane/daemon/server.hpp"
#include "dataplane/sys/async_close.hpp"
#include "dataplane/sys/pid_namespace.hpp"

namespace mprdma::dataplane::mprdmad {

namespace {

int offer(int to, uint32_t block, uint32_t number, bool trusted, int socket) {
  auto message = client::new_message<client::RingOffer>(0);
  message.block = block;
  message.ring = number;
  message.same_user = trusted ? 1 : 0;
  return client::send_message(to, message, socket);
}

}  // namespace

DaemonServer::Connection* DaemonServer::client_of(uint32_t block) {
  for (auto& [id, client] : connections_) {
    if (client.block == block && block != client::kNoBlock && !client.over) return &client;
  }
  return nullptr;
}

void DaemonServer::on_ring_request(Connection& client, const client::RingRequest& request,
                                   Time now) {
  Connection* peer = client_of(request.block);
  const auto known = client.rings.find(request.block);
  // Both ends ask: the second request crosses the offer that answers the first.
  if (peer != nullptr && known != client.rings.end() && known->second != request.last_ring) return;
  const int error = peer == nullptr ? ENOENT : make_ring(client, *peer, now);
  if (error == 0) {
    ++counters_.nic_rings_made;
    return;
  }
  ++counters_.nic_rings_refused;
  auto refused = client::new_message<client::RingRefused>(request.head.serial);
  refused.block = request.block;
  refused.error = error;
  send(client, refused);
}

// 0 or an errno value.
int DaemonServer::make_ring(Connection& client, Connection& peer, Time now) {
  const bool same_user = client.uid == peer.uid;
  if (&client == &peer) return EINVAL;
  if (config_.rings == RingPolicy::kOff) return EPERM;
  if (config_.rings == RingPolicy::kSameUser && !same_user) return EPERM;
  // What was queued for one of them would come behind the offer.
  if (!client.outgoing.empty() || !peer.outgoing.empty()) return EAGAIN;
  if (now >= client.ring_period_end) {
    client.ring_period_end = now + kRingPeriod;
    client.rings_left = kRingsPerPeriod;
  }
  if (client.rings_left == 0) return EAGAIN;
  --client.rings_left;
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets) != 0) {
    return errno;
  }
  while (++last_ring_ == 0) {
  }
  // If only one of them gets its end, the other end is closed, which it sees.
  const bool trusted = same_user && same_pid_namespace(client.pid_namespace, peer.pid_namespace);
  int error = offer(peer.fd, client.block, last_ring_, trusted, sockets[1]);
  if (error == 0) error = offer(client.fd, peer.block, last_ring_, trusted, sockets[0]);
  // One of the two may have put descriptors into its end and gone. The last close of a socket
  // closes what waits in it, too, which may block.
  close_elsewhere(sockets[0]);
  close_elsewhere(sockets[1]);
  if (error != 0) return error;
  client.rings[peer.block] = peer.rings[client.block] = last_ring_;
  return 0;
}

void DaemonServer::forget_rings(const Connection& client) {
  for (auto& [id, other] : connections_) other.rings.erase(client.block);
}

}  // namespace mprdma::dataplane::mprdmad
