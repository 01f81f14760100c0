#include "dataplane/mgmt/neighbour_table.hpp"

#include <algorithm>

#include "base/byte_order.hpp"
#include "base/mix.hpp"

namespace mprdma::dataplane {

namespace {

constexpr size_t next(size_t bucket, size_t buckets) {
  return (bucket + 1) & (buckets - 1);
}

}  // namespace

NeighbourTable::NeighbourTable(uint64_t secret) : secret_(secret), buckets_(kBuckets, kNone) {
  entries_.reserve(kCapacity);
  spare_.reserve(kCapacity);
}

size_t NeighbourTable::first_bucket(const wire::IpAddress& ip) const {
  const uint64_t high = mix64(secret_ ^ load_be64(ip.data()));
  return mix64(high ^ load_be64(ip.data() + 8)) & (kBuckets - 1);
}

// Ends: half of the buckets are empty.
size_t NeighbourTable::bucket_of(const wire::IpAddress& ip) const {
  size_t bucket = first_bucket(ip);
  while (buckets_[bucket] != kNone && entries_[buckets_[bucket]].ip != ip) {
    bucket = next(bucket, kBuckets);
  }
  return bucket;
}

NeighbourTable::Entry* NeighbourTable::find_mutable(const wire::IpAddress& ip) {
  const uint16_t index = buckets_[bucket_of(ip)];
  return index == kNone ? nullptr : &entries_[index];
}

const NeighbourTable::Entry* NeighbourTable::find(const wire::IpAddress& ip) const {
  const uint16_t index = buckets_[bucket_of(ip)];
  return index == kNone ? nullptr : &entries_[index];
}

// Removes an address and moves up the entries behind it whose search passes its bucket, so that no
// search ends at the empty bucket. Requires: the table has the address.
void NeighbourTable::unlink(const wire::IpAddress& ip) {
  size_t hole = bucket_of(ip);
  for (size_t i = next(hole, kBuckets); buckets_[i] != kNone; i = next(i, kBuckets)) {
    const size_t first = first_bucket(entries_[buckets_[i]].ip);
    if (((i - first) & (kBuckets - 1)) < ((i - hole) & (kBuckets - 1))) continue;
    buckets_[hole] = buckets_[i];
    hole = i;
  }
  buckets_[hole] = kNone;
}

void NeighbourTable::note_spare(Entry& entry) {
  const bool spare = !entry.wanted || entry.state == State::kFailed;
  if (spare == (entry.spare_at != kNone)) return;
  if (spare) {
    entry.spare_at = static_cast<uint16_t>(spare_.size());
    spare_.push_back(static_cast<uint16_t>(&entry - entries_.data()));
    return;
  }
  // The last one takes its place.
  spare_[entry.spare_at] = spare_.back();
  entries_[spare_.back()].spare_at = entry.spare_at;
  spare_.pop_back();
  entry.spare_at = kNone;
}

// A new entry, in place of a replaceable one if the table is full; nullptr: there is none. The
// caller decides whether the new entry is replaceable.
NeighbourTable::Entry* NeighbourTable::add(const wire::IpAddress& ip) {
  Entry* entry = nullptr;
  if (entries_.size() < kCapacity) {
    entry = &entries_.emplace_back();
  } else if (!spare_.empty()) {
    entry = &entries_[spare_.back()];
    spare_.pop_back();
    unlink(entry->ip);
    *entry = Entry{};
  } else {
    return nullptr;
  }
  entry->ip = ip;
  buckets_[bucket_of(ip)] = static_cast<uint16_t>(entry - entries_.data());
  return entry;
}

const NeighbourTable::Entry* NeighbourTable::resolve(const wire::IpAddress& ip, Time now) {
  Entry* entry = find_mutable(ip);
  const bool known = entry != nullptr && entry->state != State::kFailed;
  if (entry == nullptr) entry = add(ip);
  if (entry == nullptr) return nullptr;
  entry->wanted = true;
  if (!known) entry->state = State::kResolving;
  note_spare(*entry);
  if (known) return entry;
  entry->asked_since = now;
  entry->next_request = now;
  entry->retry = kFirstRetry;
  if (now < next_deadline_) next_deadline_ = now;
  return entry;
}

bool NeighbourTable::learn(const wire::IpAddress& ip, const wire::MacAddress& mac, bool may_add) {
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
  note_spare(*entry);
  return true;
}

void NeighbourTable::forget_failed() {
  std::erase_if(entries_, [](const Entry& entry) { return entry.state == State::kFailed; });
  std::ranges::fill(buckets_, kNone);
  spare_.clear();
  for (Entry& entry : entries_) {
    buckets_[bucket_of(entry.ip)] = static_cast<uint16_t>(&entry - entries_.data());
    entry.spare_at = kNone;
    note_spare(entry);
  }
}

void NeighbourTable::refresh(const wire::IpAddress& ip, Time now) {
  Entry* entry = find_mutable(ip);
  // An entry that is being resolved needs no second request.
  if (entry == nullptr || !entry->next_request.is_never()) return;
  entry->next_request = now;
  entry->retry = kFirstRetry;
  next_deadline_ = std::min(next_deadline_, now);
}

void NeighbourTable::restart(Time now, bool all) {
  for (Entry& entry : entries_) {
    if (entry.state == State::kReachable && !(all && entry.wanted)) continue;
    if (entry.state == State::kResolving) entry.asked_since = now;  // nobody could hear it before
    entry.next_request = now;
    entry.retry = kFirstRetry;
    next_deadline_ = now;
  }
}

}  // namespace mprdma::dataplane
