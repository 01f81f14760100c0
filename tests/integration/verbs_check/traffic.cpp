// Random traffic on several QPs, in both directions at once.
#include <sched.h>

#include <memory>
#include <unordered_map>
#include <vector>

#include "tests/integration/verbs_check/lane.hpp"
#include "tests/integration/verbs_check/modes.hpp"

namespace mprdma::verbs_check {

namespace {

// The message that the two sides exchange over TCP.
struct Note {
  static constexpr uint32_t kFinished = UINT32_MAX;
  uint32_t lane = 0;      // or kFinished: everything is sent and verified
  uint32_t verified = 0;  // messages of the note's receiver that its sender verified
};

class Traffic {
 public:
  Traffic(const Args& args, const Device& device, Oob& oob)
      : args_(args),
        oob_(oob),
        // Makes one CQ for everything or one for each side, by the seed.
        send_cq_(device, args.qps * 32, args.events),
        recv_cq_(device, args.qps * Lane::kReceives, args.events) {
    const bool one_cq = Prng(args.seed).split("one cq").chance(1, 3);
    for (uint32_t i = 0; i < args.qps; ++i) {
      const Cq& recv_cq = one_cq ? send_cq_ : recv_cq_;
      lanes_.push_back(std::make_unique<Lane>(args, device, send_cq_, recv_cq, i));
      by_qpn_[lanes_.back()->qpn()] = i;
    }
    credits_.resize(args.qps);
    if (args.active) device.expect_active();
    for (auto& lane : lanes_) lane->connect(oob.exchange(lane->address()));
    oob.barrier();
  }

  void run() {
    double last_progress_s = now_s();
    while (!finished_here_ || !finished_there_) {
      if (step()) {
        last_progress_s = now_s();
      } else if (now_s() > last_progress_s + args_.stall_s) {
        for (const auto& lane : lanes_) lane->describe();
        fail("no progress for %u s", args_.stall_s);
      } else {
        wait();
      }
    }
    oob_.barrier();
    report();
  }

 private:
  bool step() {
    unsigned done = 0;
    for (auto& lane : lanes_) done += lane->post_receives();
    for (auto& lane : lanes_) done += lane->send_some();
    done += take_completions(send_cq_);
    done += take_completions(recv_cq_);
    done += process_notes();
    tell();
    return done > 0;
  }

  unsigned take_completions(Cq& cq) {
    ibv_wc wcs[16];
    const unsigned n = cq.poll(wcs, 16);
    for (unsigned i = 0; i < n; ++i) {
      const auto found = by_qpn_.find(wcs[i].qp_num);
      if (found == by_qpn_.end()) fail("completion of unknown QP %u", wcs[i].qp_num);
      Lane& lane = *lanes_[found->second];
      // The opcode of a failed completion is undefined; then either function says what failed.
      if ((wcs[i].opcode & IBV_WC_RECV) != 0)
        lane.on_receive_completion(wcs[i]);
      else
        lane.on_send_completion(wcs[i]);
    }
    return n;
  }

  unsigned process_notes() {
    unsigned n = 0;
    Note note;
    while (!finished_there_ && oob_.poll(&note)) {
      ++n;
      if (note.lane == Note::kFinished)
        finished_there_ = true;
      else
        lanes_[note.lane]->on_credit(note.verified);
    }
    return n;
  }

  void tell() {
    bool all = true;
    for (uint32_t i = 0; i < lanes_.size(); ++i) {
      const Lane& lane = *lanes_[i];
      if (lane.verified() != credits_[i]) {
        credits_[i] = lane.verified();
        const Note note{i, lane.verified()};
        oob_.send(&note, sizeof(note));
      }
      all = all && lane.all_sent() && lane.all_received();
    }
    if (all && !finished_here_) {
      finished_here_ = true;
      const Note note{Note::kFinished, 0};
      oob_.send(&note, sizeof(note));
    }
  }

  // Lets other processes run while there is nothing to do, or sleeps until an event.
  void wait() {
    if (!args_.events) {
      sched_yield();
      return;
    }
    if (!armed_) {
      // Entries that came before the arming raise no event, so the queue is polled once more before
      // the sleep.
      send_cq_.arm();
      recv_cq_.arm();
      armed_ = true;
      return;
    }
    bool pausing = false;
    for (const auto& lane : lanes_) pausing = pausing || lane->pausing();
    sleep(pausing ? 1 : 100);
    armed_ = false;
  }

  void sleep(int timeout_ms) { Cq::sleep_any(send_cq_, recv_cq_, oob_.fd(), timeout_ms); }

  void report() {
    uint64_t bytes = 0;
    uint32_t pauses = 0;
    for (const auto& lane : lanes_) {
      bytes += lane->bytes_sent();
      pauses += lane->pauses();
    }
    say("ok: seed %lu, %u QPs, %u operations each, %lu bytes sent, everything verified, "
        "%u times slow to receive",
        args_.seed, args_.qps, args_.ops, bytes, pauses);
  }

  const Args& args_;
  Oob& oob_;
  Cq send_cq_;
  Cq recv_cq_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::unordered_map<uint32_t, uint32_t> by_qpn_;
  std::vector<uint32_t> credits_;  // credits that the peer knows of
  bool finished_here_ = false;
  bool finished_there_ = false;
  bool armed_ = false;
};

}  // namespace

void run_traffic(const Args& args, const Device& device, Oob& oob) {
  Traffic traffic(args, device, oob);
  traffic.run();
}

}  // namespace mprdma::verbs_check
