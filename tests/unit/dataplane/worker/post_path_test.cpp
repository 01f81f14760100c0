// Who takes a request from the ring changes nothing on the wire: a post sends it at once, each into
// a frame in one go (Worker::send_at_once), a burst takes it by the general way. Runs drawn from
// one seed are run by either way, with losses, refused requests and full windows; every frame,
// every completion and the peer's memory are the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/prng.hpp"
#include "base/timing_wheel.hpp"
#include "tests/unit/dataplane/engine/engine_host.hpp"

namespace mprdma::dataplane {
namespace {

using testing::Bytes;
using testing::Host;
using testing::HostPair;
using testing::HostQp;

enum class Way { kPost, kBurst };

// What an observer sees, in order.
struct Observed {
  std::vector<std::pair<int, Bytes>> frames;               // with the side that sent it
  std::vector<std::pair<uint64_t, uint32_t>> completions;  // of a, then of b: wr_id and status
  std::vector<unsigned char> at_b;
};

class RandomRun {
 public:
  RandomRun(uint32_t seed, Way way) : way_(way), draw_(seed) {
    pair_.wire->bare = true;
    pair_.wire->on_frame = [this](int side, const Bytes& frame) {
      seen_.frames.emplace_back(side, frame);
      return draw(100) >= 5 || seen_.frames.size() < 8;  // they find each other
    };
    key_a_ = register_at_zero(pair_.a, at_a_);
    key_b_ = register_at_zero(pair_.b, at_b_);
    for (size_t i = 0; i < at_a_.size(); ++i)
      at_a_[i] = static_cast<unsigned char>(i * 7 + i / 256);
    for (int i = 0; i < 50; ++i) step();
  }

  Observed observe() {
    for (int round = 0; round < 60; ++round) {
      step();
      // The next burst would take what is left before the posts.
      pair_.a.worker->catch_up(pair_.a.now);
      collect();
      for (uint32_t posts = draw(4) == 0 ? draw(50) : draw(6); posts > 0 && room(); --posts) post();
      tell();
      // Also until the timers of everything have fired.
      for (uint32_t idle = draw(6) == 0 ? draw(500) : 0; idle > 0; --idle) step();
    }
    if (draw(4) == 0) post_refused();
    tell();
    for (int i = 0; i < 2000; ++i) {
      step();
      collect();
    }
    EXPECT_EQ(done_, posted_) << "every request has ended";
    seen_.at_b = at_b_;
    return std::move(seen_);
  }

 private:
  static constexpr uint32_t kMemory = 1 << 14;

  // Runs have their memory in different places: on the wire it begins at 0.
  static uint32_t register_at_zero(Host& host, std::vector<unsigned char>& bytes) {
    const mprdma_abi_reg_mr in{
        reinterpret_cast<uint64_t>(bytes.data()), bytes.size(), 0, host.pd, Host::kAllRights, 0, 0};
    mprdma_abi_reg_mr_out out{};
    EXPECT_EQ(host.execute(MPRDMA_ABI_REG_MR, in, &out), 0);
    return out.rkey;
  }
  // As HostPair::step(), from one tick of the workers' timers to another: a timer may stand too
  // early, for one look, and by either way for another time.
  void step() {
    constexpr int64_t kTick = int64_t{1} << TimingWheel::kTickShift;
    pair_.a.now = pair_.b.now = Time::from_ns((pair_.a.now.ns() / kTick + 2) * kTick);
    pair_.a.worker->run(pair_.a.now);
    pair_.b.worker->run(pair_.b.now);
  }
  uint32_t draw(uint32_t below) { return static_cast<uint32_t>(draw_.below(below)); }
  [[nodiscard]] bool room() const { return posted_ - done_ < HostQp::kDepth; }
  mprdma_abi_sge piece(uint32_t bytes, uint32_t key) { return {draw(kMemory - bytes), bytes, key}; }

  void post() {
    const uint32_t kind = draw(20);
    const uint32_t bytes = draw(3) != 0 ? draw(100) : draw(3000);  // MTU: 1024
    if (kind == 0) return post_read(bytes);
    const bool send = kind < 8;
    if (send) {
      const mprdma_abi_sge to{draw(kMemory - bytes), bytes, key_b_};
      pair_.b.post_recv(*pair_.qp_b, 1000 + posted_, {to});
    }
    const uint8_t opcode = send ? MPRDMA_ABI_SEND : MPRDMA_ABI_WRITE;
    mprdma_abi_send_wqe* wqe = nullptr;
    if (kind % 5 == 1 && bytes <= HostQp::kMaxInline) {
      wqe = &pair_.a.begin_send(*pair_.qp_a, opcode, posted_, {});
      wqe->flags |= MPRDMA_ABI_WQE_INLINE;
      wqe->inline_bytes = bytes;
      std::fill_n(reinterpret_cast<unsigned char*>(wqe + 1), bytes,
                  static_cast<unsigned char>(posted_));
    } else if (kind % 5 == 2) {
      const mprdma_abi_sge first = piece(bytes / 3, key_a_);
      wqe = &pair_.a.begin_send(*pair_.qp_a, opcode, posted_,
                                {first, piece(bytes - bytes / 3, key_a_)});
    } else {
      wqe = &pair_.a.begin_send(*pair_.qp_a, opcode, posted_, {piece(bytes, key_a_)});
    }
    if (kind % 4 == 1) wqe->flags |= MPRDMA_ABI_WQE_SOLICITED;
    if (kind % 7 == 3) wqe->flags |= MPRDMA_ABI_WQE_FENCE;
    if (!send) finish_write(*wqe, bytes);
    publish();
  }
  void post_read(uint32_t bytes) {
    auto& wqe = pair_.a.begin_send(*pair_.qp_a, MPRDMA_ABI_READ, posted_, {piece(bytes, key_a_)});
    finish_write(wqe, bytes);
    publish();
  }
  // A local key that nobody has: the queue pair ends.
  void post_refused() {
    if (!room()) return;
    auto& wqe =
        pair_.a.begin_send(*pair_.qp_a, MPRDMA_ABI_WRITE, posted_, {piece(16, key_a_ + 77)});
    finish_write(wqe, 16);
    publish();
  }
  void finish_write(mprdma_abi_send_wqe& wqe, uint32_t bytes) {
    wqe.remote_addr = draw(kMemory - bytes);
    wqe.rkey = key_b_;
  }
  void publish() {
    ++posted_;
    told_ = false;
    Host::end_send_silently(*pair_.qp_a);
    // One by one, or several at a time.
    if (draw(3) != 0) tell();
  }
  void tell() {
    if (std::exchange(told_, true)) return;
    if (way_ == Way::kPost) {
      pair_.a.worker->run_sends(pair_.qp_a->doorbell, pair_.a.now);
    } else {
      pair_.a.ring(*pair_.qp_a);
    }
    // A post leaves to the next burst what is more than one turn of its queue pair.
    pair_.a.worker->run(pair_.a.now);
  }
  void collect() {
    mprdma_abi_cqe cqe{};
    for (; pair_.cq_a->poll(&cqe); ++done_) seen_.completions.emplace_back(cqe.wr_id, cqe.status);
    while (pair_.cq_b->poll(&cqe)) seen_.completions.emplace_back(cqe.wr_id, cqe.status);
  }

  const Way way_;
  Prng draw_;
  HostPair pair_;
  std::vector<unsigned char> at_a_ = std::vector<unsigned char>(kMemory);
  std::vector<unsigned char> at_b_ = std::vector<unsigned char>(kMemory);
  uint32_t key_a_ = 0;
  uint32_t key_b_ = 0;
  uint64_t posted_ = 0;
  uint64_t done_ = 0;
  bool told_ = true;  // the engine knows of all that was posted
  Observed seen_;
};

TEST(PostPath, SendsWhatABurstSends) {
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Observed by_post = RandomRun(seed, Way::kPost).observe();
    const Observed by_burst = RandomRun(seed, Way::kBurst).observe();
    ASSERT_GT(by_post.frames.size(), 100u);
    for (size_t i = 0; i < std::min(by_post.frames.size(), by_burst.frames.size()); ++i) {
      ASSERT_EQ(by_post.frames[i], by_burst.frames[i]) << "frame " << i;
    }
    ASSERT_EQ(by_post.frames.size(), by_burst.frames.size());
    ASSERT_EQ(by_post.completions, by_burst.completions);
    ASSERT_TRUE(by_post.at_b == by_burst.at_b);
  }
}

}  // namespace
}  // namespace mprdma::dataplane
