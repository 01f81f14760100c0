#include "dataplane/cm/id_table.hpp"

#include <utility>

#include "base/byte_order.hpp"
#include "base/check.hpp"
#include "base/mix.hpp"

namespace mprdma::dataplane {

namespace {

constexpr size_t kFirstBuckets = 64;

bool& known_flag(CmId& id, CmIdTable::Remote kind) {
  switch (kind) {
    case CmIdTable::Remote::kCommId:
      return id.knows_comm;
    case CmIdTable::Remote::kQpn:
      return id.knows_qpn;
    case CmIdTable::Remote::kSidrRequest:
      break;
  }
  return id.knows_sidr;
}

}  // namespace

size_t CmIdTable::Hash::operator()(uint32_t number) const {
  return mix64(secret ^ number);
}

size_t CmIdTable::Hash::operator()(const RemoteKey& key) const {
  uint64_t hash = mix64(secret ^ load_be64(key.peer.data()));
  hash = mix64(hash ^ load_be64(key.peer.data() + 8));
  return mix64(hash ^ (uint64_t{key.number} << 8 | static_cast<uint64_t>(key.kind)));
}

CmIdTable::CmIdTable(uint32_t ids_max, uint64_t seed)
    : ids_max_(ids_max),
      prng_(Prng(seed).split("cm ids")),
      ids_(kFirstBuckets, Hash{prng_.next_u64()}),
      comm_ids_(kFirstBuckets, Hash{prng_.next_u64()}),
      remotes_(kFirstBuckets, Hash{prng_.next_u64()}) {}

CmId* CmIdTable::add() {
  if (full()) return nullptr;
  uint32_t number = 0;
  while (number == 0 || ids_.contains(number)) number = static_cast<uint32_t>(prng_.next_u64());
  auto owned = std::make_unique<CmId>();
  CmId* id = owned.get();
  id->id = number;
  id->timer.owner = id;
  ids_.emplace(number, std::move(owned));
  return id;
}

void CmIdTable::remove(CmId& id) {
  CHECK(!id.timer.scheduled);
  drop_comm_id(id);
  forget(id, Remote::kCommId);
  forget(id, Remote::kQpn);
  forget(id, Remote::kSidrRequest);
  uncount(id);
  if (id.orphan) orphans_.erase(id.orphan_place);
  ids_.erase(id.id);
}

void CmIdTable::give_to(CmId& id, uint32_t client) {
  id.client = client;
  id.counted = true;
  ++counts_[client];
}

void CmIdTable::uncount(CmId& id) {
  if (!id.counted) return;
  id.counted = false;
  const auto found = counts_.find(id.client);
  if (--found->second == 0) counts_.erase(found);
}

uint32_t CmIdTable::count_of(uint32_t client) const {
  const auto found = counts_.find(client);
  return found == counts_.end() ? 0 : found->second;
}

CmId* CmIdTable::find(uint32_t id) const {
  const auto found = ids_.find(id);
  return found == ids_.end() ? nullptr : found->second.get();
}

CmId* CmIdTable::oldest_orphan() const {
  return orphans_.empty() ? nullptr : find(orphans_.front());
}

void CmIdTable::make_orphan(CmId& id) {
  if (id.orphan) return;
  id.orphan = true;
  uncount(id);
  id.orphan_place = orphans_.insert(orphans_.end(), id.id);
}

void CmIdTable::draw_comm_id(CmId& id) {
  drop_comm_id(id);
  uint32_t number = 0;
  while (number == 0 || comm_ids_.contains(number)) {
    number = static_cast<uint32_t>(prng_.next_u64());
  }
  id.comm_id = number;
  id.transaction = prng_.next_u64();
  comm_ids_.emplace(number, &id);
}

void CmIdTable::drop_comm_id(CmId& id) {
  if (id.comm_id == 0) return;
  comm_ids_.erase(id.comm_id);
  id.comm_id = 0;
}

CmId* CmIdTable::find_comm(uint32_t comm_id) const {
  const auto found = comm_ids_.find(comm_id);
  return found == comm_ids_.end() ? nullptr : found->second;
}

CmIdTable::RemoteKey CmIdTable::key_of(const CmId& id, Remote kind) {
  return {id.remote, kind == Remote::kQpn ? id.remote_qpn.value() : id.remote_comm_id, kind};
}

CmId* CmIdTable::find_remote(Remote kind, const wire::IpAddress& peer, uint32_t number) const {
  const auto found = remotes_.find({peer, number, kind});
  return found == remotes_.end() ? nullptr : found->second;
}

void CmIdTable::learn(CmId& id, Remote kind) {
  forget(id, kind);
  known_flag(id, kind) = remotes_.emplace(key_of(id, kind), &id).second;
}

void CmIdTable::forget(CmId& id, Remote kind) {
  bool& known = known_flag(id, kind);
  if (known) remotes_.erase(key_of(id, kind));
  known = false;
}

}  // namespace mprdma::dataplane
