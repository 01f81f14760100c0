#include "tests/integration/crowd/ids.hpp"

#include <arpa/inet.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

namespace mprdma::crowd {

sockaddr_in socket_address(const std::string& address, uint16_t port) {
  sockaddr_in made{};
  made.sin_family = AF_INET;
  made.sin_port = htons(port);
  if (inet_pton(AF_INET, address.c_str(), &made.sin_addr) != 1) {
    fail("%s is no address", address.c_str());
  }
  return made;
}

void claim(const Args& args) {
  rdma_event_channel* channel = rdma_create_event_channel();
  if (channel == nullptr) fail("rdma_create_event_channel: %s", std::strerror(errno));
  std::vector<rdma_cm_id*> held;
  unsigned taken = 0;
  for (const Port& port : args.claim) {
    rdma_cm_id* id = nullptr;
    const auto space = static_cast<rdma_port_space>(port.space);
    if (rdma_create_id(channel, &id, nullptr, space) != 0) fail("rdma_create_id");
    held.push_back(id);
    sockaddr_in address = socket_address(args.address, port.number);
    if (rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&address)) == 0 && rdma_listen(id, 1) == 0) {
      continue;
    }
    if (errno != EADDRINUSE && errno != EADDRNOTAVAIL)
      fail("port %u: %s", port.number, std::strerror(errno));
    std::printf("taken: %s:%u\n", space == RDMA_PS_UDP ? "udp" : "tcp", port.number);
    ++taken;
  }
  std::printf("claimed %zu\n", held.size() - taken);
  for (rdma_cm_id* id : held) rdma_destroy_id(id);
  rdma_destroy_event_channel(channel);
}

}  // namespace mprdma::crowd
