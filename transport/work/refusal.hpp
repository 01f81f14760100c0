// The consequences, in terms of the verbs, of a terminal refusal by a responder. `Code` below is
// wire::NackCode (mode mp) or wire::NakCode (AETH): both name the three errors that end a
// connection (IBTA volume 1, 9.7.5.2).
#pragma once

#include "transport/core/types.hpp"

namespace mprdma::transport {

// A refusal that the queue pair has not heard of. The connection that refuses raises it, while it
// takes a packet, a receive or a packet to send; the queue pair takes it at the end of that call
// and enters ERR (IBTA 9.9.3, 10.10.3).
class Refusal {
 public:
  // `event`: the affiliated asynchronous event, kNone where a receive's completion says it.
  void raise(QpEvent event) {
    due_ = true;
    event_ = event;
  }
  // True once for each refusal; `event` gets its event.
  bool pop(QpEvent* event) {
    if (!due_) return false;
    due_ = false;
    *event = event_;
    return true;
  }

 private:
  bool due_ = false;
  QpEvent event_ = QpEvent::kNone;
};

// The responder's event for a refused request that took no receive (IBTA 11.6.3).
template <class Code>
constexpr QpEvent event_of_refusal(Code code) {
  return code == Code::kRemoteAccessError ? QpEvent::kAccessError : QpEvent::kRequestError;
}

}  // namespace mprdma::transport
