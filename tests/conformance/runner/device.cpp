#include "tests/conformance/runner/device.hpp"

#include <cstring>

#include "tests/conformance/runner/pattern.hpp"
#include "tests/conformance/runner/vocabulary.hpp"
#include "transport/work/sge_list.hpp"

namespace mprdma::conformance {

namespace {

using transport::QpService;
using transport::QpState;

constexpr uint32_t kPd = 1;
constexpr Qpn kFirstQpn{0x11};
constexpr Qpn kPeerQpn{0x22};
constexpr uint32_t kQkey = 0x11111111;
constexpr uint64_t kDefaultLocal = 0x10000;
constexpr uint64_t kDefaultRemote = 0x20000;
constexpr uint32_t kDefaultRemoteKey = 0x1234;
constexpr uint8_t kKeyByte = 0x55;
constexpr int kPollsMax = 10'000;

template <class Value>
void set_if(const Step& step, std::string_view key, Value& value) {
  if (step.has(key)) value = static_cast<Value>(step.number(key));
}

transport::Params params_of(Mode mode) {
  switch (mode) {
    case Mode::kMp:
      return transport::Params::mp_single();
    case Mode::kIrn:
      return transport::Params::irn();
    default:
      return transport::Params::roce();
  }
}

}  // namespace

std::string describe(const transport::Completion& c) {
  std::string text = "wr=" + std::to_string(c.wr_id) + " status=" + word_of(c.status, kStatuses) +
                     " op=" + word_of(c.opcode, kWcOpcodes) + " len=" + std::to_string(c.byte_len);
  if (c.has_imm) text += " imm=" + std::to_string(c.imm);
  if (c.invalidated) text += " inv=" + std::to_string(c.imm);
  if (c.solicited) text += " solicited=1";
  if (c.has_grh) text += " grh=1";
  if (c.src_qpn != Qpn(0)) text += " src=" + std::to_string(c.src_qpn.value());
  return text + " vendor=" + std::to_string(c.vendor_err);
}

std::string Outputs::describe() const {
  std::string text;
  const auto add = [&text](std::string_view kind, const std::string& qp, const std::string& what) {
    text.append(text.empty() ? "" : "; ").append(kind).append(" ").append(what);
    if (qp != "A") text.append(" qp=").append(qp);
  };
  for (const auto& [qp, packet] : packets) add(">", qp, conformance::describe(packet));
  for (const auto& [qp, c] : send_completions) add("send_wc", qp, conformance::describe(c));
  for (const auto& [qp, c] : recv_completions) add("recv_wc", qp, conformance::describe(c));
  for (const auto& [qp, event] : events) add("event", qp, word_of(event, kEvents));
  return text;
}

Device::Device(Mode mode)
    : mode_(mode),
      memory_(kBytes),
      placement_storage_(transport::kMaxPlacements),
      released_storage_(transport::kMaxReleased) {
  const Key m = transport::MemoryTable::make_key(next_slot_++, kKeyByte);
  keys_["M"] = m;
  regions_.set({.iova = kBase,
                .addr = kBase,
                .length = kBytes,
                .pd = kPd,
                .access = transport::kLocalWrite | transport::kRemoteRead |
                          transport::kRemoteWrite | transport::kRemoteAtomic | transport::kMwBind,
                .key = m});
}

// ---- Queue pairs -------------------------------------------------------------------------------

Device::QueuePair& Device::find(const Step& step) {
  const auto found = queue_pairs_.find(name_of(step));
  if (found == queue_pairs_.end()) step.fail("there is no qp '" + name_of(step) + "'");
  return found->second;
}

void Device::set_attributes(const Step& step, QueuePair& queue_pair) const {
  transport::QpAttributes& a = queue_pair.attributes;
  if (step.has("access")) a.access = flags_of(step, step.text("access"), kAccess);
  set_if(step, "qkey", a.qkey);
  set_if(step, "mtu", a.path_mtu);
  set_if(step, "peer", a.dest_qpn);
  if (step.has("sq_psn")) a.sq_psn = Psn(static_cast<uint32_t>(step.number("sq_psn")));
  if (step.has("rq_psn")) a.rq_psn = Psn(static_cast<uint32_t>(step.number("rq_psn")));
  set_if(step, "vp", a.vp);
  set_if(step, "timeout", a.timeout);
  set_if(step, "retry_cnt", a.retry_cnt);
  set_if(step, "rnr_retry", a.rnr_retry);
  set_if(step, "min_rnr_timer", a.min_rnr_timer);
  set_if(step, "max_rd_atomic", a.max_rd_atomic);
  set_if(step, "max_dest_rd_atomic", a.max_dest_rd_atomic);
  set_if(step, "sqd_notify", a.sqd_notify);
}

bool Device::set_state(QueuePair& queue_pair, QpState state) {
  transport::RxActions actions = make_actions();
  const bool moved = queue_pair.qp->set_state(now, state, actions);
  do_actions(queue_pair, actions);
  return moved;
}

void Device::make_qp(const Step& step) {
  const std::string name = step.subject.empty() ? "A" : step.subject;
  if (queue_pairs_.contains(name)) step.fail("there is a qp '" + name + "' already");
  transport::QpConfig config{
      .qpn = Qpn(kFirstQpn.value() + static_cast<uint32_t>(queue_pairs_.size())),
      .pd = static_cast<uint32_t>(step.number_or("pd", kPd)),
      .send_depth = static_cast<uint32_t>(step.number_or("sq_depth", 16)),
      .recv_depth = static_cast<uint32_t>(step.number_or("rq_depth", 16)),
      .max_send_sge = static_cast<uint32_t>(step.number_or("sge", 4)),
      .max_recv_sge = static_cast<uint32_t>(step.number_or("sge", 4)),
      .signal_all = step.number_or("signal_all", 0) != 0,
      .service = value_of(step, step.text_or("service", "rc"), kServices),
      .xrcd = static_cast<uint32_t>(step.number_or("xrcd", 0)),
      .params = params_of(mode_)};
  set_if(step, "window", config.params.window_max);
  if (step.has("srq")) {
    const auto srq = shared_queues_.find(step.text("srq"));
    if (srq == shared_queues_.end()) step.fail("there is no srq '" + step.text("srq") + "'");
    config.shared = &srq->second->receives;
    config.recv_depth = 0;
  }
  QueuePair& queue_pair = queue_pairs_[name];
  queue_pair.name = name;
  queue_pair.dialect = {.mode = mode_, .service = config.service};
  queue_pair.attributes = {
      .access = transport::kRemoteRead | transport::kRemoteWrite | transport::kRemoteAtomic,
      .qkey = kQkey,
      .path_mtu = 256,
      .dest_qpn = kPeerQpn,
      .rq_psn = Psn(100),
      .sq_psn = Psn(100),
      .max_rd_atomic = 4,
      .max_dest_rd_atomic = 4};
  set_attributes(step, queue_pair);
  const transport::Device device{.memory = &regions_,
                                 .held = &held_,
                                 .counters = &counters_,
                                 .host = this,
                                 .find_xrc_srq = &Device::find_xrc_srq};
  queue_pair.qp = std::make_unique<transport::Qp>(config, device);
  queue_pair.qp->set_attributes(queue_pair.attributes);
  const QpState target = value_of(step, step.text_or("state", "rts"), kStates);
  for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
    if (state <= target && !set_state(queue_pair, state)) step.fail("cannot enter this state");
  }
  if (target > QpState::kRts && !set_state(queue_pair, target)) step.fail("no such state to start");
}

void Device::modify(const Step& step) {
  QueuePair& queue_pair = find(step);
  set_attributes(step, queue_pair);
  queue_pair.qp->set_attributes(queue_pair.attributes);
  if (step.subject.empty()) return;
  const bool moved = set_state(queue_pair, value_of(step, step.subject, kStates));
  const std::string result = moved ? "ok" : "refused";
  const std::string expected = step.text_or("result", "ok");
  if (result != expected) step.fail("expected result=" + expected + ", got " + result);
}

// ---- Memory ------------------------------------------------------------------------------------

Key Device::key(const Step& step, std::string_view text) const {
  if (const auto number = parse_number(text)) return Key(static_cast<uint32_t>(*number));
  const auto found = keys_.find(text);
  if (found == keys_.end()) step.fail("there is no key '" + std::string(text) + "'");
  return found->second;
}

void Device::make_region(const Step& step) {
  const uint64_t addr = step.number("at");
  const uint64_t length = step.number("len");
  at(step, addr, length);
  const Key made = transport::MemoryTable::make_key(next_slot_++, kKeyByte);
  keys_[step.subject] = Key(static_cast<uint32_t>(step.number_or("key", made.value())));
  regions_.set({.iova = step.number_or("iova", addr),
                .addr = addr,
                .length = length,
                .pd = static_cast<uint32_t>(step.number_or("pd", kPd)),
                .access = flags_of(step, step.text("access"), kAccess),
                .key = keys_[step.subject]});
}

void Device::remove_region(const Step& step) {
  regions_.remove(key(step, step.subject));
}

void Device::make_window(const Step& step) {
  keys_[step.subject] = transport::MemoryTable::make_key(next_slot_++, kKeyByte);
  const bool type1 = step.number("type") == 1;
  regions_.set({.pd = static_cast<uint32_t>(step.number_or("pd", kPd)),
                .key = keys_[step.subject],
                .kind = type1 ? transport::MemoryKind::kWindow1 : transport::MemoryKind::kWindow2});
}

uint8_t* Device::bytes(uint64_t addr, uint64_t length) {
  const bool inside = addr >= kBase && length <= kBytes && addr - kBase <= kBytes - length;
  return inside ? memory_.data() + (addr - kBase) : nullptr;
}

uint8_t* Device::at(const Step& step, uint64_t addr, uint64_t length) {
  uint8_t* memory = bytes(addr, length);
  if (memory == nullptr) step.fail("there is memory from 0x10000 to 0x50000 only");
  return memory;
}

// ---- Shared receive queues ---------------------------------------------------------------------

void Device::make_shared_queue(const Step& step) {
  auto& shared = shared_queues_[step.subject];
  shared = std::make_unique<SharedQueue>();
  shared->name = step.subject;
  shared->number = static_cast<uint32_t>(step.number_or("number", 0));
  shared->xrcd = static_cast<uint32_t>(step.number_or("xrcd", 0));
  shared->receives = {.host = shared.get(),
                      .pd = static_cast<uint32_t>(step.number_or("pd", kPd)),
                      .take = &Device::take,
                      .room = &Device::room};
}

bool Device::take(void* host, transport::RecvRequest* out, transport::Sge* sges) {
  auto& shared = *static_cast<SharedQueue*>(host);
  if (shared.entries.empty()) return false;
  const SharedQueue::Entry entry = shared.entries.front();
  shared.entries.pop_front();
  std::copy(entry.sges.begin(), entry.sges.end(), sges);
  *out = {.wr_id = entry.wr_id, .sges = {sges, entry.sges.size()}};
  return true;
}

bool Device::room(void* host, uint32_t* bytes) {
  const auto& shared = *static_cast<SharedQueue*>(host);
  if (!shared.entries.empty()) *bytes = transport::room_of(shared.entries.front().sges);
  return !shared.entries.empty();
}

const transport::SharedReceives* Device::find_xrc_srq(void* host, uint32_t xrcd, uint32_t srqn) {
  for (const auto& [name, shared] : static_cast<Device*>(host)->shared_queues_) {
    if (shared->number == srqn && shared->xrcd == xrcd) return &shared->receives;
  }
  return nullptr;
}

// ---- Work requests -----------------------------------------------------------------------------

std::vector<transport::Sge> Device::sges_of(const Step& step) const {
  std::vector<transport::Sge> sges;
  if (step.has("sge")) {
    for (const std::string& text : split(step.text("sge"), ',')) {
      const std::vector<std::string> parts = split(text, ':');
      const auto addr = parts.empty() ? std::nullopt : parse_number(parts[0]);
      const auto length = parts.size() < 2 ? std::nullopt : parse_number(parts[1]);
      if (!addr || !length) step.fail("sge: expected addr:length or addr:length:key");
      sges.push_back({.addr = *addr,
                      .length = static_cast<uint32_t>(*length),
                      .lkey = key(step, parts.size() > 2 ? parts[2] : "M")});
    }
    return sges;
  }
  const bool atomic = step.subject == "cas" || step.subject == "faa";
  const auto length = static_cast<uint32_t>(step.number_or("len", atomic ? 8 : 0));
  if (length == 0) return sges;
  sges.push_back({.addr = step.number_or("at", kDefaultLocal),
                  .length = length,
                  .lkey = key(step, step.text_or("lkey", "M"))});
  return sges;
}

// The operation's fields, as in the queue ABI (struct mprdma_abi_send_wqe).
void Device::fill_bind(const Step& step, transport::SendRequest& request) {
  const Key window = key(step, step.text("mw"));
  const uint32_t old_byte = window.value() & 0xff;
  const auto byte = static_cast<uint32_t>(step.number_or("key_byte", (old_byte + 1) & 0xff));
  request.rkey = window;
  request.imm_or_rkey = (window.value() & ~0xffu) | byte;
  request.remote_addr = step.number_or("at", 0);
  request.compare_add = step.number_or("len", 0);
  request.swap = key(step, step.text_or("mr", "M")).value();
  request.remote_qkey = flags_of(step, step.text_or("access", "none"), kAccess);
  request.sges = {};
  if (step.has("as")) keys_[step.text("as")] = Key(request.imm_or_rkey);
}

void Device::post_send(const Step& step) {
  QueuePair& queue_pair = find(step);
  const std::vector<transport::Sge> sges = sges_of(step);
  transport::SendRequest request{
      .wr_id = step.number("wr"),
      .opcode = value_of(step, step.subject, kOperations),
      .flags = static_cast<uint16_t>(flags_of(step, step.text_or("flags", "signaled"), kFlags)),
      .imm_or_rkey = static_cast<uint32_t>(step.number_or("imm", 0)),
      .rkey = key(step, step.text_or("rkey", std::to_string(kDefaultRemoteKey))),
      .remote_addr = step.number_or("va", kDefaultRemote),
      .compare_add = step.number_or(step.has("add") ? "add" : "compare", 0),
      .swap = step.number_or("swap", 0),
      .ah = static_cast<uint32_t>(step.number_or("ah", 1)),
      .remote_qpn = Qpn(static_cast<uint32_t>(step.number_or("qpn", kPeerQpn.value()))),
      .remote_qkey = static_cast<uint32_t>(step.number_or("qkey", kQkey)),
      .xrc_srqn = static_cast<uint32_t>(step.number_or("srqn", 0)),
      .sges = sges};
  if (step.has("inv")) request.imm_or_rkey = key(step, step.text("inv")).value();
  if (request.opcode == transport::WorkOpcode::kBindMw) fill_bind(step, request);
  const transport::PostResult got = queue_pair.qp->post_send(now, request);
  const auto expected = value_of(step, step.text_or("result", "ok"), kPostResults);
  if (got != expected) {
    step.fail("expected result=" + word_of(expected, kPostResults) + ", got " +
              word_of(got, kPostResults));
  }
  collect(queue_pair);
}

void Device::post_recv(const Step& step) {
  const std::vector<transport::Sge> sges = sges_of(step);
  const uint64_t wr_id = step.number("wr");
  if (step.has("srq")) {
    const auto shared = shared_queues_.find(step.text("srq"));
    if (shared == shared_queues_.end()) step.fail("there is no srq '" + step.text("srq") + "'");
    shared->second->entries.push_back({wr_id, sges});
    return;
  }
  QueuePair& queue_pair = find(step);
  transport::RxActions actions = make_actions();
  const transport::PostResult got =
      queue_pair.qp->post_recv(now, {.wr_id = wr_id, .sges = sges}, actions);
  const auto expected = value_of(step, step.text_or("result", "ok"), kPostResults);
  if (got != expected) {
    step.fail("expected result=" + word_of(expected, kPostResults) + ", got " +
              word_of(got, kPostResults));
  }
  do_actions(queue_pair, actions);
}

// ---- Packets and time --------------------------------------------------------------------------

void Device::inject(const Step& step) {
  QueuePair& queue_pair = find(step);
  const KeyOf key_of = [this](const Step& s, std::string_view text) { return key(s, text); };
  wire::Packet defaults;
  defaults.dest_qpn = queue_pair.qp->qpn();
  defaults.reth = {.va = kDefaultRemote, .rkey = keys_["M"], .dma_len = 0};
  defaults.deth = {.q_key = kQkey, .src_qpn = kPeerQpn};
  const WirePacket packet = queue_pair.peer.make(step, queue_pair.dialect, key_of, defaults);
  const transport::FrameHandle frame = ++last_frame_;
  frames_[frame] = packet.payload;
  transport::RxActions actions = make_actions();
  const auto verdict = queue_pair.qp->on_packet(now, packet.header, frame, actions);
  do_actions(queue_pair, actions);
  if (verdict == transport::RxVerdict::kDone) frames_.erase(frame);
}

Time Device::next_deadline() const {
  Time next = Time::never();
  for (const auto& [name, queue_pair] : queue_pairs_) {
    next = std::min(next, queue_pair.qp->next_deadline());
  }
  return next;
}

void Device::run_timers() {
  for (auto& [name, queue_pair] : queue_pairs_) {
    if (queue_pair.qp->next_deadline() > now) continue;
    transport::RxActions actions = make_actions();
    queue_pair.qp->on_deadline(now, actions);
    do_actions(queue_pair, actions);
  }
}

void Device::set_wire(const Step& step) {
  wire_open_ = step.subject == "open";
  if (!wire_open_ && step.subject != "closed") step.fail("expected one of: open closed");
  for (auto& [name, queue_pair] : queue_pairs_) collect(queue_pair);
}

// Executes the actions in the order that RxActions prescribes.
void Device::do_actions(QueuePair& queue_pair, const transport::RxActions& actions) {
  for (const transport::Placement& placement : actions.placements) place(placement);
  for (const transport::FrameHandle frame : actions.released) CHECK(frames_.erase(frame) == 1);
  if (actions.has_ack) outputs.packets.push_back({queue_pair.name, {actions.ack, {}, 0}});
  collect(queue_pair);
}

void Device::place(const transport::Placement& p) {
  const uint64_t length =
      p.kind == transport::PlacementKind::kPayload || p.kind == transport::PlacementKind::kGrh
          ? p.length
          : sizeof(uint64_t);
  uint8_t* to = bytes(p.addr, length);
  CHECK(to != nullptr);
  if (p.kind == transport::PlacementKind::kPayload) {
    const std::vector<uint8_t>& payload = frames_.at(p.frame);
    CHECK(p.payload_offset + length <= payload.size());
    std::memcpy(to, payload.data() + p.payload_offset, length);
    return;
  }
  if (p.kind == transport::PlacementKind::kGrh) {
    const Pattern grh{.letter = 'G', .offset = p.payload_offset};
    for (uint64_t i = 0; i < length; ++i) to[i] = grh.at(i);
    return;
  }
  if (p.kind == transport::PlacementKind::kValue) {
    CHECK(p.payload_offset + length <= sizeof(p.compare));
    std::memcpy(to, reinterpret_cast<const uint8_t*>(&p.compare) + p.payload_offset, length);
    return;
  }
  uint64_t value = 0;
  std::memcpy(&value, to, sizeof(value));
  *p.original = value;
  if (p.kind == transport::PlacementKind::kFetchAdd) {
    value += p.swap_add;
  } else if (value == p.compare) {
    value = p.swap_add;
  }
  std::memcpy(to, &value, sizeof(value));
}

// Completions and events first, then packets: an error takes effect before more is sent.
void Device::collect(QueuePair& queue_pair) {
  transport::Qp& qp = *queue_pair.qp;
  const std::string& name = queue_pair.name;
  const auto drain = [&] {
    transport::Completion c;
    while (qp.poll_completion(c)) {
      if (!c.emit) continue;
      (c.is_recv ? outputs.recv_completions : outputs.send_completions).push_back({name, c});
    }
    for (auto event = qp.poll_event(); event != transport::QpEvent::kNone;
         event = qp.poll_event()) {
      outputs.events.push_back({name, event});
    }
  };
  drain();
  for (int i = 0; wire_open_ && qp.wants_to_send(); ++i) {
    if (i == kPollsMax) throw ScriptFailure(0, "qp " + name + " wants to send without end");
    transport::TxPacket out;
    if (qp.poll_packet(now, out)) {
      WirePacket packet{out.header, {}, out.ah};
      for (uint32_t s = 0; s < out.num_segments; ++s) {
        const uint8_t* from = bytes(out.segments[s].addr, out.segments[s].length);
        CHECK(from != nullptr);
        packet.payload.insert(packet.payload.end(), from, from + out.segments[s].length);
      }
      CHECK(packet.payload.size() == out.header.payload_len);
      outputs.packets.push_back({name, std::move(packet)});
    }
    drain();
  }
}

uint64_t Device::counter(const Step& step) const {
  uint64_t value = 0;
  bool known = false;
  counters_.for_each([&](std::string_view name, uint64_t count) {
    if (name != step.subject) return;
    known = true;
    value = count;
  });
  if (!known) step.fail("there is no counter '" + step.subject + "'");
  return value;
}

}  // namespace mprdma::conformance
