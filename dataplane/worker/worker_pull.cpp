// Packets whose payload is lent (port/lent_payload.hpp): read in the sender's memory.
//
// A packet is taken after its payload has been read and the sender has not taken it back, so that a
// payload that cannot be read is a packet that was lost: the sender repeats it, in a frame. Packets
// of WRITEs in order go straight to their place, those of a burst in one system call. Every other
// one is read into a buffer and goes the general way, which may hold it.
//
// The last bytes of a message become visible after those in front of them (copy_to_memory.hpp):
// they are read into a place of their own, and stored when the system call is over.
#include <algorithm>
#include <array>

#include "base/check.hpp"
#include "dataplane/port/lent_payload.hpp"
#include "dataplane/sys/memory_fault.hpp"
#include "dataplane/sys/peer_memory.hpp"
#include "dataplane/worker/copy_to_memory.hpp"
#include "dataplane/worker/worker.hpp"
#include "wire/bare_packet.hpp"

namespace mprdma::dataplane {

namespace {

constexpr unsigned kRunMax = 16;     // packets of one system call
constexpr uint32_t kTailBytes = 64;  // of a message, stored last
static_assert(kTailBytes < kLendMin && 2 * kRunMax <= PeerMemory::kPiecesMax);

const unsigned char* lent_of(const RxFrame& frame) {
  return frame.data + wire::BarePacket::kBytes;
}

// Pieces of memory, of which neighbours become one.
template <unsigned kMax>
class Pieces {
 public:
  void add(uint64_t address, size_t bytes) {
    if (count_ > 0 && address == end_) {
      pieces_[count_ - 1].iov_len += bytes;
    } else {
      DCHECK(count_ < kMax);
      pieces_[count_++] = {reinterpret_cast<void*>(address), bytes};
    }
    end_ = address + bytes;
  }
  [[nodiscard]] std::span<const iovec> all() const { return std::span(pieces_).first(count_); }

 private:
  std::array<iovec, kMax> pieces_;
  unsigned count_ = 0;
  uint64_t end_ = 0;
};

}  // namespace

// Packets of WRITEs that are read in one system call.
struct Worker::PullRun {
  struct Entry {
    wire::BarePacket packet;
    LentPayload lent;
    uint64_t to;
    bool ends;  // a message
    [[nodiscard]] uint64_t end() const { return to + packet.payload_len; }
    // Without the tail of a message.
    [[nodiscard]] uint32_t body() const { return packet.payload_len - (ends ? kTailBytes : 0); }
  };
  unsigned count = 0;
  transport::PlannedWrites plan;
  std::array<Entry, kRunMax> entries;
  std::array<std::array<unsigned char, kTailBytes>, kRunMax> tails;
  Pieces<2 * kRunMax> local;
  Pieces<kRunMax> remote;
  size_t bytes = 0;
};

// Takes the first frames of a burst; returns how many.
unsigned Worker::receive_lent(const Source& from, std::span<const RxFrame> frames, TxBatch& answers,
                              Time now) {
  PullRun run;
  wire::BarePacket first;
  std::memcpy(&first, frames[0].data, sizeof(first));
  QpContext* const qp = accept_bare(Qpn(first.dest_qpn), from);
  if (qp == nullptr) {
    release(from.port, frames[0].cookie);
    return 1;
  }
  if (qp->mode_due) [[unlikely]]
    choose_ring(*qp);
  if (!qp->pair.wants_packet(PacketOf::kMp) && qp->qp.begin_plan(first.psn, run.plan)) {
    while (run.count < std::min<size_t>(frames.size(), kRunMax) &&
           frames[run.count].form == FrameForm::kLent && plan_pull(*qp, frames[run.count], run)) {
    }
  }
  if (run.count == 0) {
    if (!receive_pulled(from, *qp, frames[0], answers, now)) release(from.port, frames[0].cookie);
    return 1;
  }
  pull_run(*qp, *from.port, frames, run, now);
  for (unsigned i = 0; i < run.count; ++i) release(from.port, frames[i].cookie);
  return run.count;
}

// Adds a packet to the run. False: it is another queue pair's, no WRITE in order, or would be
// written under the tail of a message before it.
bool Worker::plan_pull(QpContext& qp, const RxFrame& frame, PullRun& run) {
  PullRun::Entry& entry = run.entries[run.count];
  std::memcpy(&entry.packet, frame.data, sizeof(entry.packet));
  entry.lent = LentPayload::load(lent_of(frame));
  // With it, the plan becomes the run's; without it, the run's is as it was.
  transport::PlannedWrites plan = run.plan;
  if (Qpn(entry.packet.dest_qpn) != qp.qp.qpn() || entry.packet.payload_len < kLendMin ||
      entry.lent.ticket == 0 || !qp.qp.plan_plain_write(entry.packet, plan, &entry.to)) {
    return false;
  }
  entry.ends = plan.message.operation == wire::Operation::kNone;
  for (unsigned i = 0; i < run.count; ++i) {
    const PullRun::Entry& before = run.entries[i];
    if (before.ends && entry.to < before.end() &&
        entry.to + entry.body() > before.end() - kTailBytes) {
      return false;
    }
  }
  run.plan = plan;
  run.local.add(entry.to, entry.body());
  if (entry.ends) {
    run.local.add(reinterpret_cast<uint64_t>(run.tails[run.count].data()), kTailBytes);
  }
  run.remote.add(entry.lent.address, entry.packet.payload_len);
  run.bytes += entry.packet.payload_len;
  ++run.count;
  return true;
}

// Reads the payloads, and takes the packets, or none of them if one was taken back.
void Worker::pull_run(QpContext& qp, Port& port, std::span<const RxFrame> frames, PullRun& run,
                      Time now) {
  ++counters_.pulls;
  const bool read = port.pull(run.local.all(), run.remote.all(), run.bytes);
  bool stand = true;
  for (unsigned i = 0; i < run.count && stand; ++i) {
    stand = run.entries[i].lent.still_stands(lent_of(frames[i]));
  }
  if (!read || !stand) {
    // Memory that was taken back may be gone; otherwise the next payload will be no better.
    if (stand) port.pull_no_more();
    counters_.drop_not_pulled += run.count;
    return;
  }
  std::atomic_thread_fence(std::memory_order_release);
  for (unsigned i = 0; i < run.count; ++i) {
    const PullRun::Entry& entry = run.entries[i];
    if (entry.ends) {
      begin_copy(entry.end() - kTailBytes, kTailBytes, qp.qp.qpn());
      copy_tail_last(reinterpret_cast<unsigned char*>(entry.end() - kTailBytes),
                     run.tails[i].data(), kTailBytes);
      end_copy();
    }
    qp.qp.take_planned(now, entry.packet, run.plan, actions_);
    finish_plain(qp);
  }
  counters_.payload_bytes_in += run.bytes;
  counters_.payload_bytes_pulled += run.bytes;
  qp.bytes_in += run.bytes;
  data_arrivals_ += run.count - 1;
  note_data(qp, now);
}

// A packet that goes the general way. True if the transport holds it.
bool Worker::receive_pulled(const Source& from, QpContext& qp, const RxFrame& frame,
                            TxBatch& answers, Time now) {
  wire::BarePacket packet;
  std::memcpy(&packet, frame.data, sizeof(packet));
  const LentPayload lent = LentPayload::load(lent_of(frame));
  if (packet.payload_len > PullBuffers::kBytes ||
      !packet.load(wire::BarePacket::kBytes + packet.payload_len, decoded_.packet)) {
    ++wire_drops_[wire::DropReason::kBadLength];
    return false;
  }
  unsigned char* const buffer = lent.ticket != 0 ? pull_buffers_.take() : nullptr;
  if (buffer == nullptr) {
    ++counters_.drop_not_pulled;
    return false;
  }
  const iovec to{buffer, packet.payload_len};
  const iovec theirs{reinterpret_cast<void*>(lent.address), packet.payload_len};
  ++counters_.pulls;
  const bool read = from.port->pull({&to, 1}, {&theirs, 1}, packet.payload_len);
  const bool stands = lent.still_stands(lent_of(frame));
  bool held = false;
  if (read && stands) {
    counters_.payload_bytes_pulled += packet.payload_len;
    rx_frame_ = nullptr;
    decoded_.payload_offset = 0;
    RxFrame pulled = frame;
    pulled.data = buffer;
    held = receive_packet(from, &qp, pulled, answers, now);
  } else {
    if (stands) from.port->pull_no_more();
    ++counters_.drop_not_pulled;
  }
  if (!held) pull_buffers_.give_back(buffer);
  return held;
}

}  // namespace mprdma::dataplane
