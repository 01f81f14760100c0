// Address handles and multicast groups.
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "dataplane/engine/command_io.hpp"
#include "dataplane/engine/commands.hpp"

namespace mprdma::dataplane {

int Commands::create_ah(const mprdma_abi_client* client, const Call& call, Time now) {
  mprdma_abi_create_ah in;
  if (!read_input(call, &in) || call.out_bytes < sizeof(mprdma_abi_handle)) return EINVAL;
  Pd* pd = find_pd(client, in.pd);
  if (pd == nullptr) return EINVAL;
  auto ah = std::make_unique<AddressHandle>();
  ah->client = client;
  ah->pd = in.pd;
  const int error = worker_.nic_part().resolve_address(in, now, ah.get());
  if (error != 0) return error;
  const uint32_t handle = worker_.ahs().add(std::move(ah));
  if (handle == 0) return ENOMEM;
  ++pd->users;
  return write_output(call, mprdma_abi_handle{handle, 0});
}

int Commands::destroy_ah(const mprdma_abi_client* client, const Call& call, Time now) {
  mprdma_abi_handle in;
  if (!read_input(call, &in)) return EINVAL;
  const AddressHandle* ah = worker_.ahs().find(in.handle);
  if (ah == nullptr || ah->client != client) return EINVAL;
  --pds_[ah->pd].users;
  // Whoever waits for its address, or for its priority, goes on: datagrams of one with an address
  // wait for nothing else but the wire, and that walk over all queue pairs is spared.
  const bool awaited = ah->path == PathState::kResolving || worker_.is_paused();
  worker_.ahs().remove(in.handle);
  if (awaited) worker_.mark_datagram_qps_dirty();
  worker_.after_command(now);
  return 0;
}

void Commands::drop_ahs(const mprdma_abi_client* client) {
  std::vector<uint32_t> handles;
  worker_.ahs().for_each([&](uint32_t handle, const AddressHandle& ah) {
    if (ah.client == client) handles.push_back(handle);
  });
  for (const uint32_t handle : handles) worker_.ahs().remove(handle);
}

int Commands::attach_mcast(const mprdma_abi_client* client, const Call& call) {
  mprdma_abi_mcast in;
  if (!read_input(call, &in)) return EINVAL;
  QpContext* qp = find_qp(client, in.qp);
  wire::IpAddress group;
  std::memcpy(group.data(), in.mgid, group.size());
  if (qp == nullptr || qp->qp.service() != transport::QpService::kUd ||
      !wire::is_multicast(group)) {
    return EINVAL;
  }
  return worker_.mcast().attach(group, qp);
}

int Commands::detach_mcast(const mprdma_abi_client* client, const Call& call) {
  mprdma_abi_mcast in;
  if (!read_input(call, &in)) return EINVAL;
  QpContext* qp = find_qp(client, in.qp);
  wire::IpAddress group;
  std::memcpy(group.data(), in.mgid, group.size());
  return qp == nullptr ? EINVAL : worker_.mcast().detach(group, qp);
}

}  // namespace mprdma::dataplane
