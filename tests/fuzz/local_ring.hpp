// The property that every peer of a LocalPort has to satisfy, shared by the fuzzer and its smoke
// test. The input is a programme: which of the two sides is an engine, whether they trust each
// other, what the peer writes into its shared memory and says on the socket, and what the port's
// owner calls in between. Whatever it is, frames that arrive lie within the peer's memory, none is
// lent twice, none of our own is handed out twice, and all that does not fit is counted.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <span>
#include <vector>

#include "base/check.hpp"
#include "dataplane/port/lent_payload.hpp"
#include "dataplane/port/local_port.hpp"
#include "dataplane/sys/passed_fd.hpp"
#include "wire/bare_packet.hpp"

namespace mprdma::test {

class RingProgramme {
 public:
  struct Seen {
    uint64_t taken = 0;      // frames
    uint64_t malformed = 0;  // entries
    bool violated = false;
  };

  explicit RingProgramme(std::span<const unsigned char> bytes) : bytes_(bytes) {
    int sockets[2];
    const unsigned char kind = byte();
    const bool engine_reads = (kind & 1) != 0;
    stranger_ = (kind & 4) != 0;
    if ((kind & 2) != 0) geometry_ = dataplane::local::Geometry::of_engine(kSlots);
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets) == 0);
    peer_ = sockets[1];
    make_region();
    dataplane::LocalPort::Options options;
    options.slots = kSlots;
    options.role = dataplane::local::Role::kAdopted;
    options.socket = sockets[0];
    options.stranger = stranger_;
    options.engine = engine_reads;
    auto result = dataplane::LocalPort::open(options);
    CHECK(bool(result));
    port_.reset(static_cast<dataplane::LocalPort*>(result.port.release()));
    greet();
    port_->service(now_);
    CHECK(port_->link_up());
  }
  ~RingProgramme() {
    port_.reset();
    munmap(region_, geometry_.bytes());
    close(memory_);
    close(peer_);
  }
  RingProgramme(const RingProgramme&) = delete;
  RingProgramme& operator=(const RingProgramme&) = delete;

  Seen run() {
    while (at_ < bytes_.size()) {
      const unsigned char step = byte();
      if (step % 2 == 0) {
        peer_step(step / 2 % 12);
      } else {
        owner_step(step / 2 % 10);
      }
    }
    while (!lent_.empty()) release(1);
    abandon();
    const auto stats = port_->stats();
    CHECK(stats.rx_frames == seen_.taken);
    seen_.malformed = stats.rx_malformed;
    seen_.violated = port_->violated() || !port_->link_up();
    return seen_;
  }

 private:
  static constexpr uint32_t kSlots = dataplane::local::kSlotsMin;
  static constexpr uint32_t kLender = 7;

  // ---- The programme; zeros behind its end.
  unsigned char byte() { return at_ < bytes_.size() ? bytes_[at_++] : 0; }
  uint64_t word() {
    uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8 | byte();
    return value;
  }

  void make_region() {
    memory_ = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    const auto bytes = static_cast<off_t>(geometry_.bytes());
    CHECK(memory_ >= 0 && ftruncate(memory_, bytes) == 0 && fallocate(memory_, 0, 0, bytes) == 0);
    void* const address =
        mmap(nullptr, geometry_.bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, memory_, 0);
    CHECK(address != MAP_FAILED);
    region_ = static_cast<unsigned char*>(address);
    const dataplane::local::Identity identity{
        dataplane::local::kRegionMagic,
        dataplane::local::kRegionVersion,
        geometry_.slots,
        geometry_.stride,
        geometry_.large_slots,
        geometry_.large_stride,
        geometry_.large_slots > 0 ? dataplane::local::kReadsBare : 0};
    std::memcpy(region_, &identity, sizeof identity);
    header().mark_value = 0x5ec2e7;
    header().mark_address = reinterpret_cast<uint64_t>(&header().mark_value);
    CHECK(fcntl(memory_, F_ADD_SEALS,
                F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | F_SEAL_FUTURE_WRITE) == 0);
  }

  void greet() {
    const uint32_t message[4] = {0x4c503031, 1, 0, 0};
    CHECK(dataplane::send_with_fds(peer_, message, sizeof message, std::span(&memory_, 1), true) ==
          sizeof message);
  }

  // ---- What the peer does
  [[nodiscard]] dataplane::local::RegionHeader& header() const {
    return *reinterpret_cast<dataplane::local::RegionHeader*>(region_);
  }
  [[nodiscard]] std::atomic<uint64_t>* ring() const {
    return reinterpret_cast<std::atomic<uint64_t>*>(region_ + geometry_.tx_ring_offset());
  }
  [[nodiscard]] std::atomic<uint16_t>* return_ring() const {
    return reinterpret_cast<std::atomic<uint16_t>*>(region_ + geometry_.return_ring_offset());
  }

  void peer_step(int step) {
    switch (step) {
      case 0:
      case 1:
      case 2:
        return put();
      case 3:  // gives a frame back that may be none
        return_ring()[returned_ % geometry_.entries()].store(
            static_cast<uint16_t>(byte() | byte() << 8));
        return header().returned.store(++returned_);
      case 4:
        return return_ring()[byte()].store(static_cast<uint16_t>(word()));
      case 5:
        return ring()[byte()].store(word());
      case 6:
        return jump();
      case 7:
        return header().need_wakeup.store(static_cast<uint32_t>(word()));
      case 8:
        return say();
      case 9:
        return header().pulls.store(byte());
      case 10:
        return put_together();
      default:
        return punch();
    }
  }

  // Often nearly right, so that the checks are reached one by one.
  void put() {
    const uint64_t random = word();
    dataplane::local::Descriptor d = dataplane::local::Descriptor::unpack(random);
    d.slot &= 2 * kSlots - 1;
    d.length &= 511;
    const auto form = static_cast<dataplane::FrameForm>(d.form());
    uint32_t offset = d.offset & 127;
    if (form == dataplane::FrameForm::kLent && byte() % 4 != 0) {
      offset -= offset % 8;
      d.length = wire::BarePacket::kBytes + dataplane::LentPayload::kBytes;
    }
    d.offset = dataplane::local::Descriptor::pack_offset(offset, form);
    d.sequence = static_cast<uint16_t>(sent_ + 1);
    ring()[sent_ % geometry_.entries()].store(d.pack());
    ++sent_;
    header().newest.descriptor.store(d.pack());
  }

  // Two frames, said to stand in the header, too.
  void put_together() {
    put();
    header().before.descriptor.store(byte() % 4 == 0 ? word() : header().newest.descriptor.load());
    put();
    header().newest.frame[byte() % 7].store(word());
    header().newest.descriptor.fetch_or(dataplane::local::Descriptor::kBeside);
  }

  void jump() {
    const unsigned char far = byte();
    if (far < 128) {
      header().newest.descriptor.store(word());
    } else {
      header().returned.store(static_cast<uint32_t>(returned_ + far));
    }
  }

  void say() {
    std::array<unsigned char, 16> message{};
    const uint32_t magic = 0x4c503031;
    const uint32_t type = byte() % 8 == 0 ? byte() : 2;
    std::memcpy(message.data(), &magic, sizeof magic);
    std::memcpy(message.data() + 4, &type, sizeof type);
    (void)!send(peer_, message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }

  void punch() {
    const off_t start = byte() % 64 * 4096;
    (void)!fallocate(memory_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, start, 4096 * 8);
  }

  // ---- What the owner does
  void owner_step(int step) {
    switch (step) {
      case 0:
      case 1:
        return take(byte() % (dataplane::kBurst + 1));
      case 2:
        return release(byte());
      case 3:
        return transmit(byte() % (dataplane::kBurst + 1));
      case 4:
        return port_->flush();
      case 5:
        return (void)port_->tx_tight();
      case 6:
        if (port_->arm()) port_->disarm();
        return;
      case 7:
        byte() % 2 == 0 ? port_->take_back(kLender) : port_->take_back_memory(byte(), byte());
        return;
      case 8:
        return pull();
      default:
        now_ += Duration::ms(10);
        return port_->service(now_);
    }
  }

  void take(unsigned most) {
    std::array<dataplane::RxFrame, dataplane::kBurst> frames;
    const unsigned count = port_->rx_burst(frames.data(), most);
    CHECK(count <= most);
    for (unsigned i = 0; i < count; ++i) {
      CHECK(frames[i].length >= (frames[i].form != dataplane::FrameForm::kFrame
                                     ? wire::BarePacket::kBytes
                                     : dataplane::local::kEthernetHeaderBytes));
      if (frames[i].form == dataplane::FrameForm::kLent) {
        CHECK(!stranger_ &&
              frames[i].length == wire::BarePacket::kBytes + dataplane::LentPayload::kBytes);
        const unsigned char* const at = frames[i].data + wire::BarePacket::kBytes;
        sum_ += dataplane::LentPayload::load(at).still_stands(at) ? 1 : 0;
      }
      CHECK(frames[i].length <= std::max(geometry_.stride, geometry_.large_stride));
      // Read to its last byte: it is in memory that there is.
      unsigned sum = 0;
      for (uint32_t k = 0; k < frames[i].length; ++k) sum += frames[i].data[k];
      sum_ += sum;
      CHECK(lent_.insert(frames[i].cookie).second);
    }
    seen_.taken += count;
  }

  void release(unsigned which) {
    if (lent_.empty()) return;
    auto frame = lent_.begin();
    std::advance(frame, which % lent_.size());
    const uint64_t cookie = *frame;
    lent_.erase(frame);
    port_->rx_release(&cookie, 1);
  }

  void transmit(unsigned most) {
    std::array<dataplane::TxFrame, dataplane::kBurst> frames;
    const bool large = byte() % 4 == 0;
    const unsigned count = large ? port_->tx_reserve_large(frames.data(), most)
                                 : port_->tx_reserve(frames.data(), most);
    CHECK(count <= most);
    for (unsigned i = 0; i < count; ++i) {
      for (const dataplane::TxFrame& kept : reserved_) CHECK(kept.cookie != frames[i].cookie);
      for (unsigned k = 0; k < i; ++k) CHECK(frames[k].cookie != frames[i].cookie);
      std::memset(frames[i].payload, 0x5a, 64);
      frames[i].header_bytes = 0;
      frames[i].frame_bytes = 64;
      frames[i].form =
          port_->takes_bare() ? dataplane::FrameForm::kBare : dataplane::FrameForm::kFrame;
      if (port_->takes_lent() && byte() % 2 == 0) {
        frames[i].form = dataplane::FrameForm::kLent;
        frames[i].header_bytes = 64;
        port_->lend(&frames[i], byte(), kLender);
      }
    }
    if (byte() % 8 == 0 && reserved_.size() < 64) {
      reserved_.insert(reserved_.end(), frames.begin(), frames.begin() + count);
      return;
    }
    port_->tx_commit(frames.data(), count);
  }

  // From an address that is there, or of the peer's choice.
  void pull() {
    std::array<unsigned char, 16> bytes{};
    const iovec to{bytes.data(), bytes.size()};
    const bool there = byte() % 4 != 0;
    const iovec from{there ? region_ : reinterpret_cast<void*>(word()), bytes.size()};
    const bool done = port_->pull({&to, 1}, {&from, 1}, bytes.size());
    CHECK(!done || !stranger_);
    if (byte() % 8 == 0) port_->pull_no_more();
    CHECK(!done || !there || std::memcmp(bytes.data(), region_, sizeof(uint64_t)) == 0);
  }

  void abandon() {
    for (const dataplane::TxFrame& frame : reserved_) port_->tx_abandon(&frame, 1);
    reserved_.clear();
  }

  std::span<const unsigned char> bytes_;
  size_t at_ = 0;
  bool stranger_ = false;
  dataplane::local::Geometry geometry_{kSlots, dataplane::local::kStrideMin};
  int peer_ = -1;
  int memory_ = -1;
  unsigned char* region_ = nullptr;
  uint32_t sent_ = 0;
  uint32_t returned_ = 0;
  std::unique_ptr<dataplane::LocalPort> port_;
  Time now_ = Time{} + Duration::s(1);
  std::set<uint64_t> lent_;
  std::vector<dataplane::TxFrame> reserved_;
  Seen seen_;
  unsigned sum_ = 0;
};

inline RingProgramme::Seen check_ring_programme(std::span<const unsigned char> bytes) {
  return RingProgramme(bytes).run();
}

}  // namespace mprdma::test
