// What a process does with ids of rdma_cm apart from connections.
#pragma once

#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#include "tests/integration/crowd/args.hpp"

namespace mprdma::crowd {

sockaddr_in socket_address(const std::string& address, uint16_t port);
// Binds every port of args.claim and listens there; prints each that it cannot have, and how many
// it has at once.
void claim(const Args& args);

}  // namespace mprdma::crowd
