#include "dataplane/mgmt/path_prober.hpp"

#include <algorithm>
#include <cerrno>

namespace mprdma::dataplane {

int PathProber::check(const ProbeQuestion& question) {
  const bool good =
      !question.peer.unspecified() && !wire::is_multicast_ipv4(question.peer) &&
      question.peer != Ipv4(UINT32_MAX) && question.source_port >= wire::kVirtualPathMin &&
      question.ecn <= 3 && question.bytes >= wire::kProbeBytesMin &&
      question.bytes <= wire::kProbeBytesMax && question.answer_bytes >= wire::kProbeBytesMin &&
      question.answer_bytes <= question.bytes;
  return good ? 0 : EINVAL;
}

PathProber::Open* PathProber::ask(uint32_t client, const ProbeQuestion& question, Time now) {
  const auto mine = std::count_if(open_.begin(), open_.end(),
                                  [client](const Open& open) { return open.client == client; });
  // A result that was not taken yet has its room, too.
  if (open_.size() + results_.size() >= kOpenMax || static_cast<size_t>(mine) >= kOpenOfOne ||
      !limit_.consume(now)) {
    return nullptr;
  }
  open_.push_back({.client = client,
                   .transaction = prng_.next_u64(),
                   .ip = wire::map_ipv4(question.peer),
                   .sent = false,
                   .sent_at = now,
                   .until = now + kTimeout,
                   .question = question});
  return &open_.back();
}

wire::ProbeMad PathProber::send(Open& open, Time now) {
  open.sent = true;
  open.sent_at = now;
  return {.transaction = open.transaction,
          .sequence = open.question.sequence,
          .bytes = open.question.bytes,
          .answer_bytes = open.question.answer_bytes,
          .seen = {}};
}

bool PathProber::on_answer(const wire::ProbeMad& answer, const wire::DecodedFrame& decoded,
                           Time now) {
  const auto found = std::find_if(open_.begin(), open_.end(), [&](const Open& open) {
    return open.sent && open.transaction == answer.transaction &&
           open.ip == decoded.address.src_ip && open.question.sequence == answer.sequence &&
           open.question.answer_bytes == answer.bytes;
  });
  if (found == open_.end()) return false;
  ProbeOutcome outcome;
  outcome.serial = found->question.serial;
  outcome.sequence = answer.sequence;
  outcome.rtt = now - found->sent_at;
  outcome.next_hop = decoded.address.src_mac;
  outcome.there = {.bytes = answer.seen.bytes,
                   .source_port = answer.seen.source_port,
                   .hop_limit_sent = wire::kDefaultTtl,
                   .hop_limit = answer.seen.hop_limit,
                   .ecn = static_cast<uint8_t>(answer.seen.ecn)};
  outcome.back = {.bytes = static_cast<uint16_t>(decoded.packet.payload_len),
                  .source_port = decoded.packet.vp,
                  .hop_limit_sent = answer.hop_limit,
                  .hop_limit = decoded.address.ttl,
                  .ecn = static_cast<uint8_t>(decoded.address.ecn)};
  finish(*found, outcome);
  *found = open_.back();
  open_.pop_back();
  return true;
}

ProbeOutcome PathProber::failed(const Open& open, int error) {
  ProbeOutcome outcome;
  outcome.serial = open.question.serial;
  outcome.error = error;
  outcome.sequence = open.question.sequence;
  return outcome;
}

void PathProber::on_no_neighbour(const wire::IpAddress& ip) {
  std::erase_if(open_, [&](const Open& open) {
    if (open.sent || open.ip != ip) return false;
    finish(open, failed(open, EHOSTUNREACH));
    return true;
  });
}

void PathProber::expire(Time now) {
  std::erase_if(open_, [&](const Open& open) {
    if (open.until > now) return false;
    finish(open, failed(open, open.sent ? ETIMEDOUT : EHOSTUNREACH));
    return true;
  });
}

void PathProber::forget_client(uint32_t client) {
  std::erase_if(open_, [client](const Open& open) { return open.client == client; });
}

Time PathProber::next_deadline() const {
  Time next = Time::never();
  for (const Open& open : open_) next = std::min(next, open.until);
  return next;
}

}  // namespace mprdma::dataplane
