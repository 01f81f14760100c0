// The functions of the fake engine that tests call, and the entries that the provider calls.
#include "tests/provider/fake_engine.hpp"

#include <cerrno>
#include <mutex>

#include "abi/mprdma_abi.h"
#include "dataplane/engine/engine.h"
#include "tests/provider/fake_engine_state.hpp"

namespace mprdma::provider_test {

uint32_t fake_engine_connects() {
  const std::lock_guard lock(engine().mutex);
  return engine().connects;
}

uint32_t fake_engine_objects() {
  Engine& e = engine();
  const std::lock_guard lock(e.mutex);
  return e.connections + e.pds +
         static_cast<uint32_t>(e.mrs.size() + e.cqs.size() + e.qps.size() + e.srqs.size() +
                               e.windows.size() + e.ahs.size() + e.xrcds.size() + e.groups.size());
}

bool fake_engine_raise_qp(uint32_t type, uint32_t qpn) {
  const std::lock_guard lock(engine().mutex);
  const Qp* qp = find(engine().qps, qpn);
  if (qp == nullptr) return false;
  raise(qp->owner, type, qp->init.cookie);
  return true;
}

void fake_engine_raise_port(uint32_t type) {
  const std::lock_guard lock(engine().mutex);
  if (engine().any != nullptr) raise(engine().any, type, 1);
}

void fake_engine_before_event(void (*call)()) {
  before_next_event(call);
}

void fake_engine_hold(bool hold) {
  const std::lock_guard lock(engine().mutex);
  engine().hold = hold;
}

bool fake_engine_mr(uint32_t lkey, FakeMr* out) {
  const std::lock_guard lock(engine().mutex);
  const mprdma_abi_reg_mr* mr = find(engine().mrs, lkey);
  if (mr == nullptr) return false;
  *out = {mr->addr, mr->length, mr->iova, mr->access, mr->flags};
  return true;
}

FakeModeration fake_engine_moderation() {
  const std::lock_guard lock(engine().mutex);
  return {engine().moderation.count, engine().moderation.period_us};
}

void fake_engine_features(uint64_t features) {
  const std::lock_guard lock(engine().mutex);
  engine().features = features;
}

bool fake_engine_qp(uint32_t qpn, FakeQp* out) {
  const std::lock_guard lock(engine().mutex);
  const Qp* qp = find(engine().qps, qpn);
  if (qp == nullptr) return false;
  *out = qp->asked;
  return true;
}

uint32_t fake_engine_cm_ids() {
  const std::lock_guard lock(engine().mutex);
  return engine().cm.ids();
}

void fake_engine_cm_fail(uint32_t op, int error) {
  const std::lock_guard lock(engine().mutex);
  engine().cm.fail_next(op, error);
}

void fake_engine_cm_last(uint32_t op, mprdma_abi_cm_command* out) {
  const std::lock_guard lock(engine().mutex);
  *out = engine().cm.last(op);
}

bool fake_engine_cm_raise(uint32_t type, uint32_t id) {
  const std::lock_guard lock(engine().mutex);
  return engine().cm.raise(type, id);
}

uint64_t fake_engine_progress_calls() {
  const std::lock_guard lock(engine().mutex);
  return engine().progress_calls;
}

}  // namespace mprdma::provider_test

using mprdma::provider_test::Connection;
using mprdma::provider_test::engine;

int mprdma_engine_connect(const mprdma_abi_client* client, mprdma_abi_channel* channel) {
  if (client->abi_major != MPRDMA_ABI_MAJOR) return EPROTONOSUPPORT;
  const std::lock_guard lock(engine().mutex);
  auto* connection = new Connection{*client};
  *channel = mprdma_abi_channel{MPRDMA_ABI_MAJOR,
                                MPRDMA_ABI_MINOR,
                                engine().features,
                                connection,
                                &engine().doorbells,
                                mprdma::provider_test::execute,
                                mprdma::provider_test::progress,
                                mprdma::provider_test::progress,
                                mprdma::provider_test::progress,
                                mprdma::provider_test::send};
  engine().any = connection;
  engine().connections++;
  engine().connects++;
  return 0;
}

void mprdma_engine_disconnect(mprdma_abi_channel* channel) {
  const std::lock_guard lock(engine().mutex);
  if (engine().any == channel->engine) engine().any = nullptr;
  engine().cm.forget(channel->engine);
  delete static_cast<Connection*>(channel->engine);
  engine().connections--;
}

void mprdma_engine_limits(mprdma_abi_device_info* info) {
  *info = mprdma_abi_device_info{};
  info->max_mr_bytes = 1ull << 40;
  info->max_qps = 1000;
  info->max_qp_wr = 4096;
  info->max_sge = 16;
  info->max_sge_rd = 16;
  info->max_inline_bytes = 512;
  info->max_cqs = 1000;
  info->max_cqe = 65536;
  info->max_mrs = 1000;
  info->max_pds = 1000;
  info->max_rd_atomic = 16;
  info->modes = 1u << MPRDMA_ABI_MODE_MP;
  info->max_srqs = 1000;
  info->max_srq_wr = 4096;
  info->max_srq_sge = 16;
  info->max_mws = 1000;
  info->max_xrcds = 1000;
  info->max_ahs = 1000;
  info->max_mcast_groups = 100;
  info->max_mcast_qps = 10;
  info->features = static_cast<uint32_t>(engine().features);
}
