// A shared receive queue (IBTA 10.2.9): a ring of receives in the provider's memory which its queue
// pairs take as their messages need them.
//
// The transport takes through SharedReceives::take; there is no doorbell, the producer index is
// read when a message asks. A receive that was taken belongs to the queue pair that took it: the
// completion says from which queue it came.
//
// An XRC SRQ (IBTA 14.4) is named by packets, not by queue pairs: its completions go to its own
// completion queue, and it may be destroyed while a queue pair of its domain still fills a receive
// from it. After retire() the object gives no receives and completes nowhere.
//
// Called by the holder of the worker's lock.
#pragma once

#include <cstdint>

#include "abi/mprdma_abi.h"
#include "dataplane/worker/cq.hpp"
#include "dataplane/worker/work_ring.hpp"
#include "transport/work/receive_queue.hpp"

namespace mprdma::dataplane {

class Srq {
 public:
  // `cq`: of an XRC SRQ, else nullptr.
  Srq(const mprdma_abi_create_srq& command, const mprdma_abi_client* client, Cq* cq);
  Srq(const Srq&) = delete;
  Srq& operator=(const Srq&) = delete;

  // The transport's view, at a stable address.
  [[nodiscard]] const transport::SharedReceives* shared() const { return &shared_; }
  // The queue of the SharedReceives that the transport names in a completion.
  static Srq* from(const transport::SharedReceives* shared) {
    return static_cast<Srq*>(shared->host);
  }

  // Arms the limit event unless `limit` is 0. If fewer receives are left already, the event is due
  // at once.
  void set_limit(uint32_t limit);
  // Moves the receives that were not taken into another ring. EINVAL: they do not fit.
  int move_to(const mprdma_abi_queue& queue);

  // Counts the completion of a receive that was taken from here.
  void completed() { in_flight_ -= in_flight_ > 0 ? 1 : 0; }
  // Receives taken and not completed, for which queue pairs point here. A queue pair that was reset
  // drops its receives, so the number may be too high.
  [[nodiscard]] uint32_t in_flight() const { return in_flight_; }
  void retire();

  [[nodiscard]] const mprdma_abi_client* client() const { return client_; }
  [[nodiscard]] bool is_xrc() const { return is_xrc_; }
  [[nodiscard]] uint32_t xrcd() const { return xrcd_; }
  [[nodiscard]] uint32_t pd() const { return shared_.pd; }
  [[nodiscard]] Cq* cq() const { return cq_; }
  [[nodiscard]] uint32_t limit() const { return limit_; }
  [[nodiscard]] uint32_t depth() const { return ring_.depth; }

  // Queue pairs that were made with it; a queue in use is not destroyed.
  uint32_t users = 0;

 private:
  static bool pop_receive(void* host, transport::RecvRequest* out, transport::Sge* sges);
  static bool room_of_oldest(void* host, uint32_t* bytes);
  uint32_t look(transport::RecvRequest* out, transport::Sge* sges);
  bool take(transport::RecvRequest* out, transport::Sge* sges);
  void check_limit(uint32_t waiting);

  WorkRing ring_;
  transport::SharedReceives shared_;
  const mprdma_abi_client* client_;
  uint64_t cookie_;
  Cq* cq_;
  bool is_xrc_;
  uint32_t xrcd_;
  uint32_t limit_ = 0;
  uint32_t in_flight_ = 0;
  bool failed_ = false;  // its indices were invalid: it gives no more receives
};

}  // namespace mprdma::dataplane
