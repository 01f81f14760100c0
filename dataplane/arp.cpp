#include "dataplane/arp.hpp"

#include <algorithm>

namespace mprdma::dataplane {

ArpTable::ArpTable() {
  entries_.reserve(kCapacity);
}

ArpTable::Entry* ArpTable::find_mutable(const wire::IpAddress& ip) {
  for (Entry& entry : entries_) {
    if (entry.ip == ip) return &entry;
  }
  return nullptr;
}

const ArpTable::Entry* ArpTable::find(const wire::IpAddress& ip) const {
  for (const Entry& entry : entries_) {
    if (entry.ip == ip) return &entry;
  }
  return nullptr;
}

// A fresh entry, in place of one that nobody misses if the table is full; nullptr: there is none.
ArpTable::Entry* ArpTable::add(const wire::IpAddress& ip) {
  Entry fresh;
  fresh.ip = ip;
  if (entries_.size() < kCapacity) {
    entries_.push_back(fresh);
    return &entries_.back();
  }
  for (Entry& entry : entries_) {
    if (entry.wanted && entry.state != State::kFailed) continue;
    entry = fresh;
    return &entry;
  }
  return nullptr;
}

const ArpTable::Entry* ArpTable::resolve(const wire::IpAddress& ip, Time now) {
  Entry* entry = find_mutable(ip);
  const bool known = entry != nullptr && entry->state != State::kFailed;
  if (entry == nullptr) entry = add(ip);
  if (entry == nullptr) return nullptr;
  entry->wanted = true;
  if (known) return entry;
  entry->state = State::kResolving;
  entry->asked_since = now;
  entry->next_request = now;
  entry->retry = kFirstRetry;
  if (now < next_deadline_) next_deadline_ = now;
  return entry;
}

bool ArpTable::learn(const wire::IpAddress& ip, const wire::MacAddress& mac, bool may_add) {
  Entry* entry = find_mutable(ip);
  if (entry == nullptr) {
    if (!may_add) return false;
    entry = add(ip);
    if (entry == nullptr) return false;
  } else if (entry->state == State::kReachable && entry->mac == mac) {
    entry->next_request = Time::never();
    return false;
  }
  entry->mac = mac;
  entry->state = State::kReachable;
  entry->next_request = Time::never();
  entry->retry = kFirstRetry;
  return true;
}

void ArpTable::forget_failed() {
  std::erase_if(entries_, [](const Entry& entry) { return entry.state == State::kFailed; });
}

void ArpTable::refresh(const wire::IpAddress& ip, Time now) {
  Entry* entry = find_mutable(ip);
  // One that is being asked for is so already.
  if (entry == nullptr || !entry->next_request.is_never()) return;
  entry->next_request = now;
  entry->retry = kFirstRetry;
  next_deadline_ = std::min(next_deadline_, now);
}

void ArpTable::restart(Time now, bool all) {
  for (Entry& entry : entries_) {
    if (entry.state == State::kReachable && !(all && entry.wanted)) continue;
    entry.next_request = now;
    entry.retry = kFirstRetry;
    next_deadline_ = now;
  }
}

}  // namespace mprdma::dataplane
