// Device, protection domains, completion queues. Memory: commands_memory.cpp; queue pairs:
// commands_qp.cpp; shared receive queues and XRC domains: commands_srq.cpp.
#include "dataplane/engine/commands.hpp"

#include <bit>
#include <cerrno>
#include <cstring>
#include <new>
#include <string_view>
#include <vector>

#include "dataplane/engine/all_counters.hpp"
#include "dataplane/engine/command_io.hpp"

namespace mprdma::dataplane {

namespace {

// Limits of every engine, whatever its configuration.
constexpr uint64_t kFeatures =
    MPRDMA_ABI_FEATURE_RC | MPRDMA_ABI_FEATURE_UC | MPRDMA_ABI_FEATURE_UD |
    MPRDMA_ABI_FEATURE_MULTICAST | MPRDMA_ABI_FEATURE_SRQ | MPRDMA_ABI_FEATURE_SYNCHRONISE |
    MPRDMA_ABI_FEATURE_QP_TRANSPORT | MPRDMA_ABI_FEATURE_QP_STATS |
    MPRDMA_ABI_FEATURE_CQ_MODERATION | MPRDMA_ABI_FEATURE_ON_DEMAND | MPRDMA_ABI_FEATURE_ATOMIC |
    MPRDMA_ABI_FEATURE_ATOMIC_WRITE | MPRDMA_ABI_FEATURE_MEMORY_WINDOW | MPRDMA_ABI_FEATURE_XRC |
    MPRDMA_ABI_FEATURE_CM | MPRDMA_ABI_FEATURE_GRH_VERSION;

bool good_ring(uint64_t ring, uint64_t dbr, uint32_t depth) {
  return ring != 0 && ring % alignof(mprdma_abi_cqe) == 0 && dbr != 0 && std::has_single_bit(depth);
}

}  // namespace

mprdma_abi_device_info device_limits() {
  mprdma_abi_device_info info{};
  info.max_mr_bytes = uint64_t{1} << 46;
  info.max_qps = MPRDMA_ABI_MAX_QPS - 1;
  info.max_qp_wr = 16384;
  info.max_sge = transport::kMaxSge;
  info.max_sge_rd = transport::kMaxSge;
  info.max_inline_bytes = 960;
  info.max_cqs = 16384;
  info.max_cqe = 1u << 22;
  info.max_mrs = kMaxMrs - 2;
  info.max_pds = 32768;
  // The number that Soft-RoCE offers: its requesters take their own number for ours (perftest
  // does).
  info.max_rd_atomic = transport::kMaxRdAtomic;
  info.max_ahs = AddressHandleTable::kCapacityMax;
  info.max_mcast_groups = McastTable::kGroupsMax;
  info.max_mcast_qps = McastTable::kQpsMax;
  info.features = static_cast<uint32_t>(kFeatures);
  info.max_srqs = HandleTable<Srq>::kCapacityMax;
  info.max_srq_wr = info.max_qp_wr;
  info.max_srq_sge = info.max_sge;
  info.max_mws = kMaxMrs - 2;  // they share the regions' table
  info.max_xrcds = 16384;
  info.modes = 1u << MPRDMA_ABI_MODE_DEFAULT | 1u << MPRDMA_ABI_MODE_MP |
               1u << MPRDMA_ABI_MODE_MP_PAPER | 1u << MPRDMA_ABI_MODE_MP_SINGLE |
               1u << MPRDMA_ABI_MODE_IRN | 1u << MPRDMA_ABI_MODE_ROCE;
  return info;
}

Commands::~Commands() {
  for (auto& [qpn, qp] : qps_) worker_.detach(qp.get(), Time());
}

int Commands::execute(const mprdma_abi_client* client, const Call& call, Time now) {
  ++worker_.counters().commands;
  switch (call.command) {
    case MPRDMA_ABI_QUERY_DEVICE:
      return query_device(call);
    case MPRDMA_ABI_QUERY_PORT:
      return query_port(call);
    case MPRDMA_ABI_QUERY_COUNTERS:
      return query_counters(call);
    case MPRDMA_ABI_CM_OPEN:
      return cm_open(client, call);
    case MPRDMA_ABI_CM:
      return cm(client, call, now);
    case MPRDMA_ABI_ALLOC_PD:
    case MPRDMA_ABI_FREE_PD:
    case MPRDMA_ABI_REG_MR:
    case MPRDMA_ABI_DEREG_MR:
    case MPRDMA_ABI_REREG_MR:
    case MPRDMA_ABI_ALLOC_MW:
    case MPRDMA_ABI_DEALLOC_MW:
      return execute_on_memory(client, call);
    case MPRDMA_ABI_CREATE_CQ:
    case MPRDMA_ABI_RESIZE_CQ:
    case MPRDMA_ABI_DESTROY_CQ:
    case MPRDMA_ABI_MODIFY_CQ:
    case MPRDMA_ABI_CREATE_SRQ:
    case MPRDMA_ABI_MODIFY_SRQ:
    case MPRDMA_ABI_QUERY_SRQ:
    case MPRDMA_ABI_DESTROY_SRQ:
      return execute_on_queues(client, call);
    default:
      return execute_on_qp(client, call, now);
  }
}

int Commands::execute_on_memory(const mprdma_abi_client* client, const Call& call) {
  switch (call.command) {
    case MPRDMA_ABI_ALLOC_PD:
      return alloc_pd(client, call);
    case MPRDMA_ABI_FREE_PD:
      return free_pd(client, call);
    case MPRDMA_ABI_REG_MR:
      return reg_mr(client, call);
    case MPRDMA_ABI_DEREG_MR:
      return dereg_mr(client, call);
    case MPRDMA_ABI_REREG_MR:
      return rereg_mr(client, call);
    case MPRDMA_ABI_ALLOC_MW:
      return alloc_mw(client, call);
    case MPRDMA_ABI_DEALLOC_MW:
      return dealloc_mw(client, call);
    default:
      return EINVAL;
  }
}

int Commands::execute_on_queues(const mprdma_abi_client* client, const Call& call) {
  switch (call.command) {
    case MPRDMA_ABI_CREATE_CQ:
      return create_cq(client, call);
    case MPRDMA_ABI_RESIZE_CQ:
      return resize_cq(client, call);
    case MPRDMA_ABI_DESTROY_CQ:
      return destroy_cq(client, call);
    case MPRDMA_ABI_MODIFY_CQ:
      return modify_cq(client, call);
    case MPRDMA_ABI_CREATE_SRQ:
      return create_srq(client, call);
    case MPRDMA_ABI_MODIFY_SRQ:
      return modify_srq(client, call);
    case MPRDMA_ABI_QUERY_SRQ:
      return query_srq(client, call);
    case MPRDMA_ABI_DESTROY_SRQ:
      return destroy_srq(client, call);
    default:
      return EINVAL;
  }
}

int Commands::execute_on_qp(const mprdma_abi_client* client, const Call& call, Time now) {
  switch (call.command) {
    case MPRDMA_ABI_ALLOC_XRCD:
      return alloc_xrcd(client, call);
    case MPRDMA_ABI_FREE_XRCD:
      return free_xrcd(client, call);
    case MPRDMA_ABI_CREATE_QP:
      return create_qp(client, call);
    case MPRDMA_ABI_MODIFY_QP:
      return modify_qp(client, call, now);
    case MPRDMA_ABI_QUERY_QP:
      return query_qp(client, call);
    case MPRDMA_ABI_DESTROY_QP:
      return destroy_qp(client, call, now);
    case MPRDMA_ABI_QUERY_QP_STATS:
      return query_qp_stats(client, call, now);
    case MPRDMA_ABI_CREATE_AH:
      return create_ah(client, call, now);
    case MPRDMA_ABI_DESTROY_AH:
      return destroy_ah(client, call, now);
    case MPRDMA_ABI_ATTACH_MCAST:
      return attach_mcast(client, call);
    case MPRDMA_ABI_DETACH_MCAST:
      return detach_mcast(client, call);
    default:
      return EINVAL;
  }
}

int Commands::query_device(const Call& call) {
  mprdma_abi_device_info info = device_limits();
  // The EUI-64 of the Ethernet address, in network order; also the low half of GID 0.
  std::memcpy(&info.node_guid, worker_.gid(0).data() + 8, sizeof(info.node_guid));
  return write_output(call, info);
}

int Commands::query_port(const Call& call) {
  mprdma_abi_port_info info{};
  const PortInfo port = worker_.port().info();
  info.active = worker_.port().link_up() ? 1 : 0;
  info.max_mtu = worker_.config().mtu;
  info.active_mtu = worker_.config().mtu;
  info.link_mbps = static_cast<uint32_t>(port.link_mbps);
  info.bad_pkeys = worker_.counters().drop_bad_pkey;
  info.qkey_violations = worker_.transport_counters().drop_bad_qkey;
  std::memcpy(info.mac, worker_.config().mac.data(), sizeof(info.mac));
  for (unsigned i = 0; i < 2; ++i) std::memcpy(info.gid[i], worker_.gid(i).data(), 16);
  return write_output(call, info);
}

// ---- Protection domains ------------------------------------------------------------------------

Commands::Pd* Commands::find_pd(const mprdma_abi_client* client, uint32_t handle) {
  const auto it = pds_.find(handle);
  return it != pds_.end() && it->second.client == client ? &it->second : nullptr;
}

int Commands::alloc_pd(const mprdma_abi_client* client, const Call& call) {
  if (call.out_bytes < sizeof(mprdma_abi_handle)) return EINVAL;
  if (pds_.size() >= device_limits().max_pds) return ENOMEM;
  const uint32_t handle = next_pd_++;
  pds_[handle].client = client;
  return write_output(call, mprdma_abi_handle{handle, 0});
}

int Commands::free_pd(const mprdma_abi_client* client, const Call& call) {
  mprdma_abi_handle in;
  if (!read_input(call, &in)) return EINVAL;
  const Pd* pd = find_pd(client, in.handle);
  if (pd == nullptr) return EINVAL;
  if (pd->users > 0) return EBUSY;
  pds_.erase(in.handle);
  return 0;
}

// ---- Completion queues -------------------------------------------------------------------------

Cq* Commands::find_cq(const mprdma_abi_client* client, uint32_t handle) {
  const auto it = cqs_.find(handle);
  return it != cqs_.end() && it->second->client() == client ? it->second.get() : nullptr;
}

int Commands::create_cq(const mprdma_abi_client* client, const Call& call) {
  mprdma_abi_create_cq in;
  if (!read_input(call, &in) || call.out_bytes < sizeof(mprdma_abi_handle)) return EINVAL;
  const mprdma_abi_device_info limits = device_limits();
  if (!good_ring(in.ring, in.dbr, in.depth) || in.depth > limits.max_cqe) return EINVAL;
  if (cqs_.size() >= limits.max_cqs) return ENOMEM;
  const uint32_t handle = next_cq_++;
  cqs_[handle] = std::make_unique<Cq>(in, client);
  return write_output(call, mprdma_abi_handle{handle, 0});
}

int Commands::resize_cq(const mprdma_abi_client* client, const Call& call) {
  mprdma_abi_resize_cq in;
  if (!read_input(call, &in)) return EINVAL;
  Cq* cq = find_cq(client, in.handle);
  if (cq == nullptr || !good_ring(in.ring, in.dbr, in.depth)) return EINVAL;
  if (in.depth > device_limits().max_cqe) return EINVAL;
  return cq->resize(in);
}

int Commands::modify_cq(const mprdma_abi_client* client, const Call& call) {
  mprdma_abi_modify_cq in;
  if (!read_input(call, &in)) return EINVAL;
  Cq* cq = find_cq(client, in.handle);
  if (cq == nullptr) return EINVAL;
  cq->moderate(in.count, in.period_us);
  return 0;
}

int Commands::destroy_cq(const mprdma_abi_client* client, const Call& call) {
  mprdma_abi_handle in;
  if (!read_input(call, &in)) return EINVAL;
  Cq* cq = find_cq(client, in.handle);
  if (cq == nullptr) return EINVAL;
  if (cq->users > 0) return EBUSY;
  worker_.forget_cq(cq);
  cqs_.erase(in.handle);
  return 0;
}

// ---- Counters ----------------------------------------------------------------------------------

namespace {

class CounterWriter {
 public:
  CounterWriter(mprdma_abi_counter* out, size_t room) : out_(out), room_(room) {}
  void add(std::string_view prefix, std::string_view name, uint64_t value) {
    if (count_ < room_) {
      mprdma_abi_counter& counter = out_[count_];
      counter = mprdma_abi_counter{};
      const size_t head = std::min(prefix.size(), sizeof(counter.name) - 1);
      const size_t tail = std::min(name.size(), sizeof(counter.name) - 1 - head);
      std::memcpy(counter.name, prefix.data(), head);
      std::memcpy(counter.name + head, name.data(), tail);
      counter.value = value;
    }
    ++count_;
  }
  [[nodiscard]] size_t count() const { return count_; }

 private:
  mprdma_abi_counter* out_;
  size_t room_;
  size_t count_ = 0;
};

}  // namespace

int Commands::query_counters(const Call& call) {
  if (call.out == nullptr || call.out_bytes < sizeof(mprdma_abi_counters)) return EINVAL;
  const size_t room = (call.out_bytes - sizeof(mprdma_abi_counters)) / sizeof(mprdma_abi_counter);
  auto* body = reinterpret_cast<mprdma_abi_counter*>(static_cast<unsigned char*>(call.out) +
                                                     sizeof(mprdma_abi_counters));
  CounterWriter writer(body, room);
  for_each_counter(worker_, [&](std::string_view prefix, std::string_view name, uint64_t value) {
    writer.add(prefix, name, value);
  });
  mprdma_abi_counters head{};
  head.total = static_cast<uint32_t>(writer.count());
  head.filled = static_cast<uint32_t>(std::min(writer.count(), room));
  std::memcpy(call.out, &head, sizeof(head));
  return 0;
}

// ---- Clients -----------------------------------------------------------------------------------

void Commands::forget_client(const mprdma_abi_client* client, Time now) {
  if (Daemon* daemon = worker_.port().daemon()) daemon->cm_forget(client);
  worker_.nic_part().cm().forget_client(client, now);
  worker_.nic_part().settle_cm(now);
  std::vector<QpContext*> qps;
  for (auto& [qpn, qp] : qps_) {
    if (qp->client == client) qps.push_back(qp.get());
  }
  for (QpContext* qp : qps) drop_qp(qp, now);
  drop_ahs(client);
  std::vector<uint32_t> srqs;
  worker_.srqs().for_each([&](uint32_t handle, const Srq& srq) {
    if (srq.client() == client) srqs.push_back(handle);
  });
  for (const uint32_t handle : srqs) drop_srq(handle);
  std::erase_if(xrcds_, [&](const auto& xrcd) { return xrcd.second.client == client; });
  forget_memory(client);
  std::erase_if(cqs_, [&](const auto& cq) {
    if (cq.second->client() != client) return false;
    worker_.forget_cq(cq.second.get());
    return true;
  });
  std::erase_if(pds_, [&](const auto& pd) { return pd.second.client == client; });
}

}  // namespace mprdma::dataplane
