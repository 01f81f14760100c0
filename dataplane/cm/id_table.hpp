// The ids of an agent, and the indexes by which a message finds one: our communication id, and the
// peer's names for the connection. Constant time each; never more than `ids_max` of them.
//
// Peers choose numbers that are keys here, so the hash is keyed: no peer can aim at one bucket.
// Called by one thread; pointers stay valid until remove().
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>

#include "base/prng.hpp"
#include "dataplane/cm/id.hpp"

namespace mprdma::dataplane {

class CmIdTable {
 public:
  // Which of the peer's numbers identifies the connection.
  enum class Remote : uint8_t { kCommId, kQpn, kSidrRequest };

  CmIdTable(uint32_t ids_max, uint64_t seed);

  // nullptr: there are too many.
  CmId* add();
  [[nodiscard]] bool full() const { return ids_.size() >= ids_max_; }
  // Number of ids that still fit when orphans give way.
  [[nodiscard]] uint32_t room() const {
    return ids_max_ - static_cast<uint32_t>(ids_.size() - orphans_.size());
  }
  [[nodiscard]] CmId* oldest_orphan() const;
  void remove(CmId& id);
  // Counts the id as one that the client created. Requires: no client owns it yet.
  void give_to(CmId& id, uint32_t client);
  // Number of ids that the client created, without orphans.
  [[nodiscard]] uint32_t count_of(uint32_t client) const;
  [[nodiscard]] CmId* find(uint32_t id) const;
  [[nodiscard]] uint32_t size() const { return static_cast<uint32_t>(ids_.size()); }

  // A communication id for a new attempt.
  void draw_comm_id(CmId& id);
  void drop_comm_id(CmId& id);
  [[nodiscard]] CmId* find_comm(uint32_t comm_id) const;

  [[nodiscard]] CmId* find_remote(Remote kind, const wire::IpAddress& peer, uint32_t number) const;
  // Indexes the id by id.remote and its number of that kind. An earlier entry with this key stays.
  void learn(CmId& id, Remote kind);
  void forget(CmId& id, Remote kind);

  void make_orphan(CmId& id);

  // The visit may change ids, but add and remove none.
  template <class F>
  void for_each(F&& visit) const {
    for (const auto& entry : ids_) visit(*entry.second);
  }

 private:
  struct RemoteKey {
    wire::IpAddress peer{};
    uint32_t number = 0;
    Remote kind = Remote::kCommId;
    bool operator==(const RemoteKey&) const = default;
  };
  struct Hash {
    uint64_t secret = 0;
    size_t operator()(uint32_t number) const;
    size_t operator()(const RemoteKey& key) const;
  };

  static RemoteKey key_of(const CmId& id, Remote kind);
  void uncount(CmId& id);

  uint32_t ids_max_;
  Prng prng_;
  std::unordered_map<uint32_t, std::unique_ptr<CmId>, Hash> ids_;
  std::unordered_map<uint32_t, CmId*, Hash> comm_ids_;
  std::unordered_map<RemoteKey, CmId*, Hash> remotes_;
  std::unordered_map<uint32_t, uint32_t> counts_;  // by client
  std::list<uint32_t> orphans_;                    // oldest orphan first
};

}  // namespace mprdma::dataplane
