#include "tests/swarm/flow.hpp"

#include <algorithm>
#include <cstring>

namespace mprdma::swarm {

namespace {

using transport::Completion;
using transport::WcOpcode;
using transport::WcStatus;
using transport::WorkOpcode;
using wire::Opcode;

WcOpcode completion_opcode(const Op& op) {
  switch (op.opcode) {
    case WorkOpcode::kRead:
      return WcOpcode::kRead;
    case WorkOpcode::kWrite:
    case WorkOpcode::kWriteImm:
      return WcOpcode::kWrite;
    case WorkOpcode::kCompareSwap:
      return WcOpcode::kCompareSwap;
    case WorkOpcode::kFetchAdd:
      return WcOpcode::kFetchAdd;
    case WorkOpcode::kBindMw:
      return WcOpcode::kBindMw;
    case WorkOpcode::kLocalInvalidate:
      return WcOpcode::kLocalInvalidate;
    default:
      return WcOpcode::kSend;
  }
}

// The opcode of packet `at` of a message of `packets`.
Opcode request_opcode(const Op& op, uint64_t at) {
  if (op.is_read()) return Opcode::kMpReadRequest;
  if (op.opcode == WorkOpcode::kCompareSwap) return Opcode::kMpCompareSwap;
  if (op.opcode == WorkOpcode::kFetchAdd) return Opcode::kMpFetchAdd;
  const bool last = at + 1 == op.packets;
  const bool write = op.is_write();
  if (last && op.invalidates_there()) {
    return at == 0 ? Opcode::kMpSendOnlyInvalidate : Opcode::kMpSendLastInvalidate;
  }
  if (op.packets == 1) {
    if (write) return op.has_imm() ? Opcode::kMpWriteOnlyImm : Opcode::kMpWriteOnly;
    return op.has_imm() ? Opcode::kMpSendOnlyImm : Opcode::kMpSendOnly;
  }
  if (at == 0) return write ? Opcode::kMpWriteFirst : Opcode::kMpSendFirst;
  if (!last) return write ? Opcode::kMpWriteMiddle : Opcode::kMpSendMiddle;
  if (write) return op.has_imm() ? Opcode::kMpWriteLastImm : Opcode::kMpWriteLast;
  return op.has_imm() ? Opcode::kMpSendLastImm : Opcode::kMpSendLast;
}

Opcode response_opcode(uint64_t at, uint64_t packets) {
  if (packets == 1) return Opcode::kMpReadResponseOnly;
  if (at == 0) return Opcode::kMpReadResponseFirst;
  return at + 1 == packets ? Opcode::kMpReadResponseLast : Opcode::kMpReadResponseMiddle;
}

bool same(std::span<const uint8_t> bytes, const std::vector<uint8_t>& content, uint64_t offset) {
  if (offset + bytes.size() > content.size()) return false;
  return bytes.empty() || std::memcmp(bytes.data(), content.data() + offset, bytes.size()) == 0;
}

uint64_t value_of(const std::vector<uint8_t>& content) {
  uint64_t value = 0;
  expect(content.size() == sizeof(value), "an atomic of {} bytes", content.size());
  std::memcpy(&value, content.data(), sizeof(value));
  return value;
}

bool contains(const std::vector<WcStatus>& statuses, WcStatus status) {
  return std::find(statuses.begin(), statuses.end(), status) != statuses.end();
}

}  // namespace

const Op& Flow::post(Op op) {
  if (op.is_answered()) op.read_number = reads_++;
  size_op(op, ops_.size());
  op.atomic_number = atomic_ops_.size();
  if (op.is_atomic()) atomic_ops_.push_back(ops_.size());
  op.receive = receives_wanted_;
  if (op.takes_receive()) {
    ++receives_wanted_;
    receive_ops_.push_back(ops_.size());
  }
  ops_.push_back(std::move(op));
  return ops_.back();
}

// The operation follows those before it in both streams.
void Flow::size_op(Op& op, uint64_t op_index) {
  op.segment = config_.segment;
  const uint64_t data_packets = std::max<uint64_t>((op.length + op.segment - 1) / op.segment, 1);
  op.packets = op.is_local() ? 0 : op.is_answered() ? 1 : data_packets;
  op.first_packet = requests_.total();
  requests_.add({.op = op_index,
                 .packets = op.packets,
                 .bytes = op.is_answered() ? 0 : op.length,
                 .segment = op.segment,
                 .relaxed = op.is_write() && op.relaxed,
                 .sync = op.is_sync()});
  if (!op.is_answered()) return;
  responses_.add({.op = op_index,
                  .packets = data_packets,
                  .bytes = op.length,
                  .segment = op.segment,
                  .relaxed = op.relaxed,
                  .sync = op.is_sync()});
}

void Flow::set_segment(uint32_t segment) {
  config_.segment = segment;
  const auto waits = [&](const Op& op) {
    return op.packets > 0 && op.first_packet >= requests_.sent();
  };
  const auto first =
      std::find_if(ops_.begin() + static_cast<ptrdiff_t>(completed_), ops_.end(), waits);
  if (first == ops_.end()) return;
  const auto number = static_cast<uint64_t>(first - ops_.begin());
  const auto read = std::find_if(first, ops_.end(), [](const Op& op) { return op.is_answered(); });
  requests_.cut(number);
  if (read != ops_.end()) responses_.cut(read->read_number);
  for (uint64_t i = number; i < ops_.size(); ++i) size_op(ops_[i], i);
}

void Flow::check_request(const Op& op, uint64_t at, const wire::Packet& packet) const {
  // A READ names the segment of its answer if it is not the path MTU. (So does an atomic.)
  const uint64_t answer = op.segment == config_.mtu ? 0 : op.segment;
  const uint64_t offset = op.is_answered() ? answer : at * op.segment;
  const auto& name = request_name_;
  const Opcode opcode = request_opcode(op, at);
  expect(packet.opcode == opcode, "{}: opcode {} instead of {}", name,
         wire::opcode_name(packet.opcode), wire::opcode_name(opcode));
  const uint64_t payload =
      op.is_answered() ? 0 : std::min<uint64_t>(op.segment, op.length - offset);
  expect(packet.payload_len == payload, "{}: payload of {} bytes instead of {}", name,
         packet.payload_len, payload);
  expect(packet.dest_qpn == config_.responder_qpn, "{}: to QP {}", name, packet.dest_qpn.value());
  expect(packet.mp_data.offset == offset, "{}: offset {} instead of {}", name,
         packet.mp_data.offset, offset);
  if (op.is_atomic()) check_atomic_request(op, packet);
  if (op.is_answered() || op.is_write()) {
    expect(packet.reth.va == op.remote_iova && packet.reth.rkey == op.rkey &&
               packet.reth.dma_len == op.length,
           "{}: RETH does not name the operation's memory", name);
  }
  if (op.takes_receive()) {
    expect(packet.mp_data.message_number == (op.receive & kPsnMask), "{}: message number {}", name,
           packet.mp_data.message_number);
  }
  if (packet.info().has_immdt) {
    expect(packet.immdt == op.imm, "{}: immediate {:x} instead of {:x}", name, packet.immdt,
           op.imm);
  }
  if (packet.info().has_ieth) {
    expect(packet.ieth_rkey == Key(op.imm), "{}: invalidates {:x} instead of {:x}", name,
           packet.ieth_rkey.value(), op.imm);
  }
  const bool solicited = (op.flags & transport::kSolicited) != 0 && op.takes_receive();
  if (packet.info().ends_message()) {
    expect(!op.takes_receive() || packet.solicited_event == solicited, "{}: solicited {}", name,
           packet.solicited_event);
  }
}

void Flow::check_atomic_request(const Op& op, const wire::Packet& packet) const {
  const bool swaps = op.opcode == WorkOpcode::kCompareSwap;
  expect(packet.atomic_swap_add == (swaps ? op.swap : op.compare_add), "{}: wrong swap or add",
         request_name_);
  expect(!swaps || packet.atomic_compare == op.compare_add, "{}: wrong compare", request_name_);
  expect(packet.mp_data.message_number == (op.read_number & kPsnMask), "{}: message number {}",
         request_name_, packet.mp_data.message_number);
}

// Checks the conditions under which the first packet of an operation may leave.
void Flow::check_first_copy(const Op& op, uint64_t op_index) {
  const uint64_t reads_done = responses_.placed_messages();
  const bool reads_before = reads_done < reads_ && responses_.message(reads_done).op < op_index;
  if (op.is_sync() && config_.stop_and_wait && !peer_in_order_) {
    expect(requests_.acked() >= op.first_packet && !reads_before,
           "{}: synchronise operation {} does not wait", request_name_, op_index);
  }
  if ((op.flags & transport::kFence) != 0) {
    expect(!reads_before, "{}: fenced operation {} starts before READ {} is complete",
           request_name_, op_index, reads_before ? responses_.message(reads_done).op : 0);
  }
  if (op.is_answered()) {
    const uint64_t open = reads_sent_ - reads_done;
    expect(open < config_.max_rd_atomic, "{}: {} READs open already, {} allowed", request_name_,
           open, config_.max_rd_atomic);
    ++reads_sent_;
  }
}

// READ data shows that its request has arrived, and all packets before it.
void Flow::process_implied_acks() {
  const uint64_t done = responses_.placed_messages();
  if (done > 0) requests_.on_implied_ack(ops_[responses_.message(done - 1).op].first_packet + 1);
  if (responses_.placing()) {
    requests_.on_implied_ack(ops_[responses_.message(done).op].first_packet + 1);
  }
}

// The requester has so many READs and atomics open at most: a new one shows that the one so many
// before it is complete there (IBTA 9.7.7.1).
void Flow::process_implied_response_acks() {
  while (reads_taken_ < responses_.messages() &&
         ops_[responses_.message(reads_taken_).op].first_packet < requests_.next_in_order()) {
    ++reads_taken_;
  }
  if (reads_taken_ <= config_.max_rd_atomic) return;
  responses_.on_implied_ack(responses_.message(reads_taken_ - config_.max_rd_atomic).first);
}

bool Flow::on_ack_delivered(const wire::Packet& ack, bool of_responses, Time now, uint64_t marks,
                            bool by_time) {
  process_implied_response_acks();
  if (of_responses) return responses_.on_ack_delivered(ack, now, marks, by_time);
  process_implied_acks();
  peer_in_order_ = (ack.mp_ack.flags & wire::kMpAckOrderedPlacement) != 0;
  return requests_.on_ack_delivered(ack, now, marks, by_time);
}

void Flow::complete(wire::Packet& packet) {
  const bool request = packet.info().stream == wire::PacketStream::kRequest;
  StreamModel& stream = request ? requests_ : responses_;
  const int64_t index = stream.index_of(packet.psn);
  if (index < 0 || static_cast<uint64_t>(index) >= stream.total()) return;  // on_sent() tells
  if (static_cast<uint64_t>(index) < stream.sent()) packet.mp_data.flags |= wire::kMpDataReTx;
  const Message& message = stream.message_of(static_cast<uint64_t>(index));
  const Op& op = ops_[message.op];
  const uint64_t at = static_cast<uint64_t>(index) - message.first;
  const bool numbers_reads = !request || op.is_answered();
  packet.mp_data.message_number =
      static_cast<uint32_t>(numbers_reads ? op.read_number : op.receive) & kPsnMask;
  if (request && op.is_sync()) packet.mp_data.flags |= wire::kMpDataSync;
  if (request && op.is_answered()) return;
  packet.mp_data.offset = static_cast<uint32_t>(at * op.segment);
  if (request && op.is_write() && at > 0) {
    packet.reth = {.va = op.remote_iova, .rkey = op.rkey, .dma_len = op.length};
  }
}

uint64_t Flow::on_request_sent(const wire::Packet& packet, std::span<const uint8_t> payload,
                               Time now, uint64_t marks) {
  process_implied_acks();
  const uint64_t before = requests_.sent();
  const uint64_t index = requests_.on_sent(packet.psn, now, marks, config_.window_slots);
  const uint64_t op_index = requests_.message_of(index).op;
  const Op& op = ops_[op_index];
  const uint64_t at = index - op.first_packet;
  check_request(op, at, packet);
  if (index == before && at == 0) check_first_copy(op, op_index);
  expect(((packet.mp_data.flags & wire::kMpDataSync) != 0) == op.is_sync(),
         "{}: packet {} has the wrong synchronise flag", request_name_, index);
  const bool again = (packet.mp_data.flags & wire::kMpDataReTx) != 0;
  expect(again == (index < before), "{}: packet {} says ReTx: {}", request_name_, index, again);
  expect(same(payload, op.content, at * op.segment) || op.is_answered(),
         "{}: packet {} carries wrong bytes", request_name_, index);
  expect(op_index >= completed_, "{}: operation {} is sent again after its completion",
         request_name_, op_index);
  return index;
}

uint64_t Flow::on_response_sent(const wire::Packet& packet, std::span<const uint8_t> payload,
                                Time now, uint64_t marks) {
  const auto& name = response_name_;
  process_implied_response_acks();
  const uint64_t before = responses_.sent();
  const uint64_t index = responses_.on_sent(packet.psn, now, marks, config_.window_slots);
  const Message& message = responses_.message_of(index);
  const Op& op = ops_[message.op];
  const uint64_t at = index - message.first;
  expect(requests_.sent() > op.first_packet, "{}: answers a READ that was never sent", name);
  const Opcode opcode =
      op.is_atomic() ? Opcode::kMpAtomicAck : response_opcode(at, message.packets);
  if (packet.opcode == Opcode::kMpResponseError && ending.planned()) return index;
  // A retransmitted response may be an error: its acknowledgement was lost, and the memory was
  // closed since.
  const bool complete = index < before && responses_.placed_messages() > op.read_number;
  if (packet.opcode == Opcode::kMpResponseError && complete && op.in_window) return index;
  expect(packet.opcode == opcode, "{}: opcode {} instead of {}", name,
         wire::opcode_name(packet.opcode), wire::opcode_name(opcode));
  expect(packet.dest_qpn == config_.requester_qpn, "{}: to QP {}", name, packet.dest_qpn.value());
  expect(packet.mp_data.message_number == (op.read_number & kPsnMask), "{}: message number {}",
         name, packet.mp_data.message_number);
  const uint64_t offset = at * op.segment;
  expect(packet.mp_data.offset == offset, "{}: offset {} instead of {}", name,
         packet.mp_data.offset, offset);
  const uint64_t bytes = op.is_atomic() ? 0 : std::min<uint64_t>(op.segment, op.length - offset);
  expect(packet.payload_len == bytes, "{}: payload of {} bytes instead of {}", name,
         packet.payload_len, bytes);
  const bool again = (packet.mp_data.flags & wire::kMpDataReTx) != 0;
  expect(again == (index < before), "{}: packet {} says ReTx: {}", name, index, again);
  if (op.is_atomic()) check_atomic_response(op, packet);
  // Later WRITEs may change the memory once the READ's data has arrived.
  if (!op.is_atomic() && responses_.placed_messages() <= op.read_number &&
      message.op < unknown_from) {
    expect(same(payload, op.content, offset), "{}: packet {} carries wrong bytes", name, index);
  }
  return index;
}

// The data that the READ found when it was executed, once, whatever happened since.
void Flow::check_atomic_response(const Op& op, const wire::Packet& packet) const {
  expect(atomics_executed_ > op.atomic_number, "{}: atomic {} is answered before it is executed",
         response_name_, op.wr_id);
  expect(packet.atomic_original == value_of(op.content), "{}: atomic {} answers {:x}",
         response_name_, op.wr_id, packet.atomic_original);
}

void Flow::on_atomic(const transport::Placement& p, uint64_t found) {
  const auto& name = request_name_;
  expect(atomics_executed_ < atomic_ops_.size(), "{}: an atomic too many is executed", name);
  const uint64_t index = atomic_ops_[atomics_executed_++];
  const Op& op = ops_[index];
  expect(!ending.nothing_placed || index != ending.at_op, "{}: a refused atomic is executed", name);
  if (!config_.roce) requests_.on_executed(op.first_packet);
  const bool swaps = p.kind == transport::PlacementKind::kCompareSwap;
  expect(swaps == (op.opcode == WorkOpcode::kCompareSwap) && p.addr == op.remote_addr,
         "{}: atomic {} is executed as something else", name, op.wr_id);
  expect(
      p.swap_add == (swaps ? op.swap : op.compare_add) && (!swaps || p.compare == op.compare_add),
      "{}: atomic {} with wrong operands", name, op.wr_id);
  expect(found == value_of(op.content), "{}: atomic {} finds {:x} instead of {:x}", name, op.wr_id,
         found, value_of(op.content));
}

void Flow::on_value_placed(const transport::Placement& p) {
  if (config_.roce) return;
  const uint64_t index = responses_.next_to_place();
  expect(index < responses_.total() && ops_[responses_.message_of(index).op].is_atomic(),
         "{}: a result is placed, packet {} is next", response_name_, index);
  expect(p.payload_offset + p.length <= sizeof(p.compare), "{}: a result of {} bytes",
         response_name_, p.payload_offset + p.length);
  const auto* bytes = reinterpret_cast<const uint8_t*>(&p.compare) + p.payload_offset;
  on_response_placed(index, p, {bytes, p.length});
}

uint64_t Flow::locate(const std::vector<Piece>& pieces, uint64_t offset, uint32_t length) {
  for (const Piece& piece : pieces) {
    if (offset < piece.length) {
      expect(length <= piece.length - offset, "{} bytes run over the end of an SGE", length);
      return piece.addr + offset;
    }
    offset -= piece.length;
  }
  fail("byte {} beyond the last SGE", offset);
}

void Flow::on_request_placed(uint64_t index, const transport::Placement& p,
                             std::span<const uint8_t> bytes) {
  const StreamModel::Place place = requests_.on_placed(index, p.payload_offset, p.length);
  const Op& op = ops_[place.message->op];
  expect(!ending.nothing_placed || place.message->op != ending.at_op,
         "{}: packet {} of a refused request is placed", request_name_, index);
  uint64_t addr = op.remote_addr + place.offset;
  if (op.is_send()) {
    expect(op.receive < recvs_.size(), "{}: SEND is placed without a receive", request_name_);
    addr = locate(recvs_[op.receive].pieces, place.offset, p.length);
  }
  expect(p.addr == addr, "{}: packet {} is placed at {:x} instead of {:x}", request_name_, index,
         p.addr, addr);
  expect(same(bytes, op.content, place.offset), "{}: packet {} places wrong bytes", request_name_,
         index);
}

void Flow::on_response_placed(uint64_t index, const transport::Placement& p,
                              std::span<const uint8_t> bytes) {
  const StreamModel::Place place = responses_.on_placed(index, p.payload_offset, p.length);
  const Op& op = ops_[place.message->op];
  const uint64_t addr = locate(op.pieces, place.offset, p.length);
  expect(p.addr == addr, "{}: packet {} is placed at {:x} instead of {:x}", response_name_, index,
         p.addr, addr);
  expect(same(bytes, op.content, place.offset) || place.message->op >= unknown_from,
         "{}: packet {} places wrong bytes", response_name_, index);
}

uint64_t Flow::executed_ops() {
  const uint64_t messages = requests_.placed_messages();
  return messages;
}

void Flow::check_success(const Op& op, const Completion& c) {
  const auto& name = config_.name;
  expect(c.emit == op.signaled, "{}: completion of wr {} emitted: {}", name, op.wr_id, c.emit);
  expect(c.opcode == completion_opcode(op), "{}: completion opcode {}", name,
         static_cast<int>(c.opcode));
  if (op.is_read()) {
    expect(c.byte_len == op.length, "{}: READ of {} bytes says {}", name, op.length, c.byte_len);
  }
  if (config_.roce) return;
  expect(executed_ops() > completed_, "{}: wr {} completes before its data is placed", name,
         op.wr_id);
  expect(requests_.placed_packets() >= op.first_packet + op.packets,
         "{}: wr {} completes before its packets have arrived", name, op.wr_id);
  if (op.is_answered()) {
    expect(responses_.placed_messages() > op.read_number,
           "{}: READ {} completes before its data is placed", name, op.wr_id);
  }
  expect(!op.is_atomic() || atomics_executed_ > op.atomic_number,
         "{}: atomic {} completes and was not executed", name, op.wr_id);
}

const Op& Flow::on_send_completion(const Completion& c) {
  const auto& name = config_.name;
  expect(completed_ < ops_.size(), "{}: a send completion too many", name);
  const Op& op = ops_[completed_];
  expect(c.wr_id == op.wr_id, "{}: wr {} completes, {} is next", name, c.wr_id, op.wr_id);
  if (c.status == WcStatus::kSuccess) {
    expect(!send_failed_, "{}: wr {} succeeds after a failure", name, c.wr_id);
    expect(completed_ != ending.at_op, "{}: wr {} succeeds and must not", name, c.wr_id);
    check_success(op, c);
  } else {
    expect(c.emit, "{}: failed wr {} is not told of", name, c.wr_id);
    expect(ending.planned(), "{}: wr {} fails with status {}", name, c.wr_id,
           static_cast<int>(c.status));
    if (c.status == WcStatus::kFlushError) {
      expect(send_failed_ || ending.flush_allowed, "{}: wr {} is flushed before any error", name,
             c.wr_id);
    } else {
      expect(!send_failed_, "{}: wr {} fails with status {} after an error", name, c.wr_id,
             static_cast<int>(c.status));
      expect(contains(ending.send_statuses, c.status), "{}: wr {} fails with status {}", name,
             c.wr_id, static_cast<int>(c.status));
      // By the standard a responder sends the NAK of a refusal once. Any unacknowledged request may
      // therefore be the one that the requester gives up on.
      const bool unheard = config_.roce && c.status == WcStatus::kRetryExceeded;
      expect(ending.at_op == Ending::kAnywhere || ending.at_op == completed_ || unheard,
             "{}: wr {} fails instead of operation {}", name, c.wr_id, ending.at_op);
    }
    if (!send_failed_) send_failure_ = c.status;
    send_failed_ = true;
  }
  ++completed_;
  return op;
}

const Op* Flow::on_recv_completion(const Completion& c) {
  const auto& name = config_.name;
  expect(recvs_completed_ < recvs_.size(), "{}: a receive completion too many", name);
  const Recv& recv = recvs_[recvs_completed_];
  expect(c.emit, "{}: receive {} is not told of", name, c.wr_id);
  expect(c.wr_id == recv.wr_id, "{}: receive {} completes, {} is next", name, c.wr_id, recv.wr_id);
  if (c.status != WcStatus::kSuccess) {
    expect(ending.planned(), "{}: receive {} fails with status {}", name, c.wr_id,
           static_cast<int>(c.status));
    expect(c.status == WcStatus::kFlushError ||
               (!recv_failed_ && contains(ending.recv_statuses, c.status)),
           "{}: receive {} fails with status {}", name, c.wr_id, static_cast<int>(c.status));
    recv_failed_ = true;
    ++recvs_completed_;
    return nullptr;
  }
  expect(!recv_failed_, "{}: receive {} succeeds after a failure", name, c.wr_id);
  expect(recvs_completed_ < receive_ops_.size(), "{}: receive {} completes for no message", name,
         c.wr_id);
  const uint64_t op_index = receive_ops_[recvs_completed_++];
  const Op& op = ops_[op_index];
  expect(config_.roce || executed_ops() > op_index,
         "{}: receive {} completes before its data is placed", name, c.wr_id);
  expect(config_.roce || requests_.placed_packets() >= op.first_packet + op.packets,
         "{}: receive {} completes before its packets have arrived", name, c.wr_id);
  expect(c.byte_len == op.length, "{}: receive {} has {} bytes instead of {}", name, c.wr_id,
         c.byte_len, op.length);
  expect(c.has_imm == op.has_imm() && (!c.has_imm || c.imm == op.imm),
         "{}: receive {} with a wrong immediate", name, c.wr_id);
  expect(c.invalidated == op.invalidates_there() && (!c.invalidated || c.imm == op.imm),
         "{}: receive {} with a wrong invalidated key", name, c.wr_id);
  expect(c.opcode == (op.is_write() ? WcOpcode::kRecvWriteImm : WcOpcode::kRecv),
         "{}: receive {} with opcode {}", name, c.wr_id, static_cast<int>(c.opcode));
  expect(c.solicited == ((op.flags & transport::kSolicited) != 0), "{}: receive {} solicited: {}",
         name, c.wr_id, c.solicited);
  return &op;
}

}  // namespace mprdma::swarm
