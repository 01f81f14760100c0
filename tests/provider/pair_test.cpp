// Two processes, each with the real engine, at the two ends of a LocalPort. Both run the same test
// at the same time and tell each other over a socket what an application would.
#include <sys/socket.h>
#include <sys/wait.h>

#include <array>
#include <atomic>
#include <thread>

#include "tests/provider/full_fixture.hpp"
#include "tests/provider/process.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/temporary_directory.hpp"

namespace mprdma::provider_test {
namespace {

constexpr auto kLimit = std::chrono::seconds(60);
int g_socket = -1;        // to the other process
uint8_t g_peer_last = 0;  // the peer's address: 10.73.0.x

// Sends a byte to the other process and receives its byte; nothing if it is gone.
template <class T>
T exchange(const T& ours) {
  T theirs{};
  const bool said = send(g_socket, &ours, sizeof(ours), MSG_NOSIGNAL) == sizeof(ours);
  EXPECT_TRUE(said && recv(g_socket, &theirs, sizeof(theirs), MSG_WAITALL) == sizeof(theirs));
  return theirs;
}

struct Card {
  uint32_t qp_num;
  uint32_t rkey;
  uint64_t word;
};

struct Word {
  uint64_t sender;
  uint64_t number;
};

class Pair : public Full {
 protected:
  static constexpr uint64_t kPosters = 3;
  static constexpr uint64_t kEach = 400;  // sends, and as many additions, of each thread
  static constexpr uint64_t kReceives = 16;
  static constexpr uint64_t kReceiveId = 1000;

  void SetUp() override {
    Full::SetUp();
    mr_ = reg(&memory_, sizeof(memory_), kAllAccess | IBV_ACCESS_REMOTE_ATOMIC);
    ASSERT_NE(mr_, nullptr);
    // The CQ has room for them all: an entry may wait longer than the slot of its request.
    cq_ = make_cq(static_cast<int>(kPosters * kEach * 3));
    qp_ = make(IBV_QPT_RC);
    ASSERT_NE(qp_, nullptr);
    ASSERT_TRUE(eventually([&] { return active(); }, kLimit));
    peer_ =
        exchange(Card{qp_->qp_num, mr_->rkey, reinterpret_cast<uint64_t>(memory_.counter.data())});
    connect(qp_, peer_.qp_num, g_peer_last);
    for (uint64_t i = 0; i < kReceives; i++) ASSERT_EQ(receive(i), 0);
    exchange('r');
  }

  bool active() {
    ibv_port_attr attr{};
    return ibv_query_port(context_, 1, &attr) == 0 && attr.state == IBV_PORT_ACTIVE;
  }

  int receive(uint64_t slot) {
    ibv_sge sge{reinterpret_cast<uint64_t>(&memory_.received[slot]), sizeof(Word), mr_->lkey};
    ibv_recv_wr wr{};
    wr.wr_id = kReceiveId + slot;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    return ibv_post_recv(qp_, &wr, &bad);
  }

  bool post(ibv_send_wr* wr) {
    wr->num_sge = 1;
    wr->send_flags |= IBV_SEND_SIGNALED;
    ibv_send_wr* bad = nullptr;
    return eventually([&] { return ibv_post_send(qp_, wr, &bad) == 0; }, kLimit);
  }

  // The work of one thread: numbers, inline from memory that changes each time, and ones to add.
  void send_and_add(uint64_t sender) {
    Word word{sender, 0};
    bool good = true;
    for (uint64_t i = 1; good && i <= kEach; i++) {
      word.number = i;
      ibv_sge from{reinterpret_cast<uint64_t>(&word), sizeof(word), 0};
      ibv_send_wr wr{};
      wr.sg_list = &from;
      wr.opcode = IBV_WR_SEND;
      wr.send_flags = IBV_SEND_INLINE;
      good = post(&wr);
      ibv_sge to{reinterpret_cast<uint64_t>(&memory_.before[sender]), 8, mr_->lkey};
      ibv_send_wr add{};
      add.sg_list = &to;
      add.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
      add.wr.atomic.remote_addr = peer_.word;
      add.wr.atomic.rkey = peer_.rkey;
      add.wr.atomic.compare_add = 1;
      good = good && post(&add);
    }
    EXPECT_TRUE(good);
  }

  void take(const ibv_wc& wc) {
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    if (wc.wr_id >= kReceiveId) {
      const uint64_t slot = wc.wr_id - kReceiveId;
      const Word word = memory_.received[slot];
      ASSERT_LT(word.sender, kPosters);
      sums_[word.sender] += word.number;
      EXPECT_EQ(receive(slot), 0);
    }
    done_++;
  }

  void poll_until_done() {
    ibv_wc wc[4];
    const auto end = std::chrono::steady_clock::now() + kLimit;
    while (done_ < kPosters * kEach * 3 && std::chrono::steady_clock::now() < end) {
      const int count = ibv_poll_cq(cq_, 4, wc);
      for (int i = 0; i < count; i++) take(wc[i]);
    }
  }

  struct Memory {
    std::array<uint64_t, 8> counter;  // the first word: the other process adds to it
    std::array<uint64_t, 8> before;
    std::array<Word, kReceives> received;
  };
  alignas(64) Memory memory_ = {};
  ibv_mr* mr_ = nullptr;
  ibv_qp* qp_ = nullptr;
  Card peer_{};
  std::array<std::atomic<uint64_t>, kPosters> sums_ = {};
  std::atomic<uint64_t> done_ = 0;
};

TEST_F(Pair, ThreadsOfBothSidesShareOneConnectionAndOneCompletionQueue) {
  std::vector<std::thread> threads;
  for (uint64_t sender = 0; sender < kPosters; sender++) {
    threads.emplace_back([this, sender] { send_and_add(sender); });
  }
  for (int poller = 0; poller < 2; poller++) threads.emplace_back([this] { poll_until_done(); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done_, kPosters * kEach * 3);
  for (const std::atomic<uint64_t>& sum : sums_) EXPECT_EQ(sum, kEach * (kEach + 1) / 2);
  exchange('d');  // the other side's last request has been answered, and ours
  EXPECT_EQ(__atomic_load_n(memory_.counter.data(), __ATOMIC_ACQUIRE), kPosters * kEach);
}

// Runs in the second process. Its results go to standard error, because standard output is the
// first one's.
void become_peer(int socket) {
  g_socket = socket;
  g_peer_last = 1;
  setenv("MPRDMA_ADDRESS", "10.73.0.2/24", 1);
  dup2(STDERR_FILENO, STDOUT_FILENO);
  ::testing::GTEST_FLAG(output) = "";
}

int run_as_two() {
  const TemporaryDirectory directory;
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    perror("two processes");
    return 1;
  }
  setenv("MPRDMA_PORT", ("local:" + directory.path("wire")).c_str(), 1);
  const pid_t child = fork();
  close(ends[child == 0 ? 0 : 1]);
  if (child == 0) {
    become_peer(ends[1]);
    GTEST_FLAG_SET(output, "");  // the report is our parent's
    return RUN_ALL_TESTS();
  }
  g_socket = ends[0];
  g_peer_last = 2;
  const int result = RUN_ALL_TESTS();
  close(ends[0]);
  int status = 1;
  waitpid(child, &status, 0);
  return result == 0 && status == 0 ? 0 : 1;
}

}  // namespace
}  // namespace mprdma::provider_test

int main(int argc, char** argv) {
  mprdma::provider_test::relaunch_under_preload(argv);
  ::testing::InitGoogleTest(&argc, argv);
  return mprdma::provider_test::run_as_two();
}
