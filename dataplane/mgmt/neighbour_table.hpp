// The neighbour table: who is asked for, when again, and who has answered, for ARP (RFC 826) and
// neighbour discovery (RFC 4861). IPv6 addresses are link-local. neighbours.hpp sends the requests.
//
// An address is asked for at once, then after 10 ms, doubling up to a second, for as long as
// somebody wants it. After kGiveUpAfter without an answer the entry is kFailed: packets to it are
// dropped, so that the queue pair's own timers end in the standard's error; a late one ends that.
// The sender of a request to us is learnt too; such an entry, or a failed one, is replaced when the
// table is full.
//
// A host on the link can cause a lookup and an insertion with each packet that it sends: both take
// a time that does not grow with the table, whatever addresses it chooses (the hash is keyed).
// Called by the worker and by mprdmad's switch.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ipv4.hpp"
#include "base/units.hpp"
#include "wire/arp.hpp"
#include "wire/ip_address.hpp"

namespace mprdma::dataplane {

class NeighbourTable {
 public:
  static constexpr uint32_t kCapacity = 4096;
  static constexpr Duration kFirstRetry = Duration::ms(10);
  static constexpr Duration kLastRetry = Duration::s(1);
  static constexpr Duration kGiveUpAfter = Duration::s(1);

  static constexpr uint16_t kNone = UINT16_MAX;

  enum class State : uint8_t { kResolving, kReachable, kFailed };

  struct Entry {
    wire::IpAddress ip{};
    State state = State::kResolving;
    bool wanted = false;  // a queue pair asked for it; else it was only learnt
    wire::MacAddress mac{};
    Time asked_since;
    Time next_request = Time::never();
    Duration retry = kFirstRetry;
    uint16_t spare_at = kNone;  // the table's own: in the list of those that make room
  };

  // `secret`: key of the hash.
  explicit NeighbourTable(uint64_t secret);

  [[nodiscard]] const Entry* find(const wire::IpAddress& ip) const;
  // The entry of `ip`, made if it is new, and due to be asked for at once if it is new or failed;
  // nullptr: the table is full of addresses in use.
  const Entry* resolve(const wire::IpAddress& ip, Time now);
  // Learns that `ip` is at `mac`. True if that is news.
  bool learn(const wire::IpAddress& ip, const wire::MacAddress& mac, bool may_add);
  // Overloads for IPv4 addresses.
  [[nodiscard]] const Entry* find(Ipv4 ip) const { return find(wire::map_ipv4(ip)); }
  const Entry* resolve(Ipv4 ip, Time now) { return resolve(wire::map_ipv4(ip), now); }
  bool learn(Ipv4 ip, const wire::MacAddress& mac, bool may_add) {
    return learn(wire::map_ipv4(ip), mac, may_add);
  }
  // Learns from an advertisement (RFC 4861, 7.2.5), which adds no entry; without the override flag
  // it changes no known address.
  bool learn_advertised(const wire::IpAddress& ip, const wire::MacAddress& mac, bool overrides) {
    const Entry* known = find(ip);
    const bool keeps = known != nullptr && known->state == State::kReachable && !overrides;
    return !keeps && learn(ip, mac, false);
  }
  // Marks the address of `ip` as doubtful: it is asked for at once, and stays valid meanwhile.
  void refresh(const wire::IpAddress& ip, Time now);
  // Removes the failed entries, for a host that asks again on behalf of clients that still need
  // them.
  void forget_failed();
  // Called when the wire came up: unknown addresses are asked for at once; with `all`, known ones
  // as well, which stay valid meanwhile.
  void restart(Time now, bool all = false);

  [[nodiscard]] Time next_deadline() const { return next_deadline_; }
  // Calls request(ip) for each address that is due, and failed(ip) for each that gives up.
  template <class Request, class Failed>
  void on_deadline(Time now, Request&& request, Failed&& failed) {
    next_deadline_ = Time::never();
    for (Entry& entry : entries_) {
      if (entry.next_request <= now) {
        request(entry.ip);
        entry.next_request = now + entry.retry;
        entry.retry = entry.retry * 2 < kLastRetry ? entry.retry * 2 : kLastRetry;
        if (entry.state == State::kResolving && now - entry.asked_since >= kGiveUpAfter) {
          entry.state = State::kFailed;
          note_spare(entry);
          failed(entry.ip);
        }
      }
      if (entry.next_request < next_deadline_) next_deadline_ = entry.next_request;
    }
  }

 private:
  // Twice as many as entries, so that searches stay short.
  static constexpr size_t kBuckets = size_t{2} * kCapacity;
  static_assert((kBuckets & (kBuckets - 1)) == 0 && kCapacity < kNone);

  Entry* find_mutable(const wire::IpAddress& ip);
  Entry* add(const wire::IpAddress& ip);
  // The bucket where the search for `ip` begins, and the one where it ends: the bucket of `ip`, or
  // an empty one.
  [[nodiscard]] size_t first_bucket(const wire::IpAddress& ip) const;
  [[nodiscard]] size_t bucket_of(const wire::IpAddress& ip) const;
  void unlink(const wire::IpAddress& ip);
  // Updates spare_ after a change of the entry.
  void note_spare(Entry& entry);

  uint64_t secret_;
  std::vector<Entry> entries_;
  std::vector<uint16_t> buckets_;  // index of an entry, or kNone: open addressing, linear probing
  std::vector<uint16_t> spare_;    // indices of entries to replace when the table is full
  Time next_deadline_ = Time::never();
};

}  // namespace mprdma::dataplane
