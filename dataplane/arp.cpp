#include "dataplane/arp.hpp"

namespace mprdma::dataplane {

ArpTable::ArpTable() {
  entries_.reserve(kCapacity);
}

ArpTable::Entry* ArpTable::find_mutable(uint32_t ip) {
  for (Entry& entry : entries_) {
    if (entry.ip == ip) return &entry;
  }
  return nullptr;
}

const ArpTable::Entry* ArpTable::find(uint32_t ip) const {
  for (const Entry& entry : entries_) {
    if (entry.ip == ip) return &entry;
  }
  return nullptr;
}

const ArpTable::Entry* ArpTable::resolve(uint32_t ip, Time now) {
  Entry* entry = find_mutable(ip);
  if (entry == nullptr) {
    if (entries_.size() == kCapacity) return nullptr;
    Entry fresh;
    fresh.ip = ip;
    fresh.asked_since = now;
    fresh.next_request = now;
    entries_.push_back(fresh);
    entry = &entries_.back();
    if (now < next_deadline_) next_deadline_ = now;
  }
  return entry;
}

bool ArpTable::learn(uint32_t ip, const wire::MacAddress& mac, bool may_add) {
  Entry* entry = find_mutable(ip);
  if (entry == nullptr) {
    if (!may_add || entries_.size() == kCapacity) return false;
    Entry fresh;
    fresh.ip = ip;
    entries_.push_back(fresh);
    entry = &entries_.back();
  } else if (entry->state == State::kReachable && entry->mac == mac) {
    return false;
  }
  entry->mac = mac;
  entry->state = State::kReachable;
  entry->next_request = Time::never();
  entry->retry = kFirstRetry;
  return true;
}

void ArpTable::restart(Time now) {
  for (Entry& entry : entries_) {
    if (entry.state == State::kReachable) continue;
    entry.next_request = now;
    entry.retry = kFirstRetry;
    next_deadline_ = now;
  }
}

}  // namespace mprdma::dataplane
