#include "dataplane/nic/path_prober.hpp"

#include <algorithm>
#include <cerrno>

namespace mprdma::dataplane::nic {

int PathProber::check(const PathProbe& question) {
  const bool good =
      question.peer != 0 && question.peer >> 28 != 0xe && question.peer != UINT32_MAX &&
      question.source_port >= wire::kVirtualPathMin && question.ecn <= 3 &&
      question.bytes >= wire::kProbeBytesMin && question.bytes <= wire::kProbeBytesMax &&
      question.answer_bytes >= wire::kProbeBytesMin && question.answer_bytes <= question.bytes;
  return good ? 0 : EINVAL;
}

PathProber::Open* PathProber::ask(uint32_t client, const PathProbe& question, Time now) {
  const auto mine = std::count_if(open_.begin(), open_.end(),
                                  [client](const Open& open) { return open.client == client; });
  // A result that was not taken yet has its room, too.
  if (open_.size() + results_.size() >= kOpenMax || static_cast<size_t>(mine) >= kOpenOfOne ||
      !limit_.take(now)) {
    return nullptr;
  }
  open_.push_back({.client = client,
                   .serial = question.head.serial,
                   .transaction = prng_.next_u64(),
                   .ip = wire::map_ipv4(question.peer),
                   .sent = false,
                   .sent_at = now,
                   .until = now + kTimeout,
                   .question = question});
  return &open_.back();
}

bool PathProber::take(const wire::ProbeMad& answer, const wire::IpAddress& from, Open* out) {
  const auto found = std::find_if(open_.begin(), open_.end(), [&](const Open& open) {
    return open.sent && open.transaction == answer.transaction && open.ip == from &&
           open.question.sequence == answer.sequence && open.question.answer_bytes == answer.bytes;
  });
  if (found == open_.end()) return false;
  *out = *found;
  *found = open_.back();
  open_.pop_back();
  return true;
}

PathAnswer PathProber::failed(const Open& open, int error) {
  auto answer = new_message<PathAnswer>(open.serial);
  answer.error = error;
  answer.sequence = open.question.sequence;
  return answer;
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

}  // namespace mprdma::dataplane::nic
