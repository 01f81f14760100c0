#include "offload/lockstep/sender_device.hpp"

#include <Vmp_sender.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/fixed_point.hpp"
#include "offload/lockstep/verilated_module.hpp"
#include "offload/lockstep/wide_port.hpp"
#ifdef MPRDMA_RTL_MUTANTS
#include <Vmp_sender_mp_mutant.h>
#endif

namespace mprdma::offload {

namespace {

using transport::OffloadContext;
using transport::PsnMap;

// As state_t of mp_sender.sv.
void put(const SenderState& state, VlWide<9>& words) {
  const OffloadContext& c = state.context;
  Writer out(words);
  out.put(state.una, 24);
  out.put(state.nxt, 24);
  out.put(c.window_raw, 32);
  out.put(c.owed_raw, 24);
  out.put(c.ooh_offset, 7);
  out.put(c.credits, 8);
  out.put(0, 2 + 16);  // no credit has a path
  out.put(c.flags, 8);
  for (const uint32_t time :
       {c.srtt_ns, c.round_start, c.epoch_start, c.last_ack, c.last_congestion}) {
    out.put(time, 24);
  }
  out.put(state.backoff, 8);
}

void get(const VlWide<9>& words, SenderState* state) {
  OffloadContext& c = state->context;
  Reader in(words);
  state->una = static_cast<uint32_t>(in.get(24));
  state->nxt = static_cast<uint32_t>(in.get(24));
  c.window_raw = static_cast<uint32_t>(in.get(32));
  c.owed_raw = static_cast<uint32_t>(in.get(24));
  c.ooh_offset = static_cast<uint8_t>(in.get(7));
  const uint64_t pathless = in.get(8);
  c.credits = static_cast<uint8_t>(std::min<uint64_t>(pathless + in.get(2), UINT8_MAX));
  in.get(16);
  c.flags = static_cast<uint8_t>(in.get(8));
  for (uint32_t* time :
       {&c.srtt_ns, &c.round_start, &c.epoch_start, &c.last_ack, &c.last_congestion}) {
    *time = static_cast<uint32_t>(in.get(24));
  }
  state->backoff = static_cast<uint32_t>(in.get(8));
}

void put_maps(const OffloadContext& c, VlWide<18>& words) {
  Writer out(words);
  out.put(c.sacked, 64);
  for (const PsnMap& map : {c.lost, c.penalised, c.resent, c.resent_before}) {
    for (const uint64_t word : map.words) out.put(word, 64);
  }
}

void get_maps(const VlWide<18>& words, OffloadContext* c) {
  Reader in(words);
  c->sacked = in.get(64);
  for (PsnMap* map : {&c->lost, &c->penalised, &c->resent, &c->resent_before}) {
    for (uint64_t& word : map->words) word = in.get(64);
  }
}

std::string text_of(const PsnMap& map) {
  return fmt::format("{:016x}{:016x}", map.words[1], map.words[0]);
}

}  // namespace

std::string SenderState::text() const {
  const OffloadContext& c = context;
  std::string out = fmt::format(
      "una {} nxt {} backoff {} window {:08x} owed {:06x} credits {} flags {:02x} ooh {} srtt {} ",
      una, nxt, backoff, c.window_raw, c.owed_raw, c.credits, c.flags, c.ooh_offset, c.srtt_ns);
  out += fmt::format("round {:06x} epoch {:06x} ack {:06x} congestion {:06x} sacked {:016x} ",
                     c.round_start, c.epoch_start, c.last_ack, c.last_congestion, c.sacked);
  out += fmt::format("lost {} penalised {} resent {} before {}", text_of(c.lost),
                     text_of(c.penalised), text_of(c.resent), text_of(c.resent_before));
  return out;
}

std::string SenderRequest::text() const {
  static constexpr const char* kNames[] = {"load", "ack",  "burst", "timeout",
                                           "post", "wake", "ask",   "next"};
  std::string out =
      fmt::format("connection {}: {} now {} has_new {} explore {} path {}", connection,
                  kNames[static_cast<size_t>(kind)], now_ns, has_new, explore, path);
  if (kind == Kind::kLoad) out += " " + state.text();
  if (kind != Kind::kAck) return out;
  out += fmt::format(" aack {} sack {}{} nack {} ece {} copy {} sample {} ", ack.aack.value(),
                     ack.sack_valid ? "" : "no ", ack.sack.value(), static_cast<int>(ack.nack),
                     ack.ece, ack.copy, ack.sample);
  return out + fmt::format("echo {} delay {} vp {}", ack.echoed_timestamp, ack.delay_us, ack.vp);
}

std::string SenderReply::text() const {
  return fmt::format(
      "connection {}: refused {} packet {} psn {} vp {} restarts {} progresses {} {}", connection,
      refused, packet, psn, vp, restarts, progresses, state.text());
}

SenderDevice::SenderDevice(int seed, uint32_t mutant, const SenderSettings& settings)
    : module_(std::make_unique<VerilatedModule<Vmp_sender>>(seed, mutant)) {
  VerilatedModule<Vmp_sender>& top = *module_;
  top->initial_window = settings.initial_window * Fixed16::kOneRaw;
  top->max_window = settings.max_window * Fixed16::kOneRaw;
  top->delta = static_cast<uint8_t>(settings.delta);
}

SenderDevice::~SenderDevice() = default;

void SenderDevice::record(const std::string& path) {
  module_->record(path);
}

void SenderDevice::give(const SenderRequest& request) {
  VerilatedModule<Vmp_sender>& top = *module_;
  top->in_connection = static_cast<uint16_t>(request.connection);
  top->in_kind = static_cast<uint8_t>(request.kind);
  put(request.state, top->in_state);
  put_maps(request.state.context, top->in_maps);
  top->in_now = static_cast<uint32_t>(request.now_ns);
  top->in_has_new = request.has_new ? 1 : 0;
  top->in_explore = request.explore ? 1 : 0;
  top->in_path = request.path;
  top->in_aack = request.ack.aack.value();
  top->in_sack_valid = request.ack.sack_valid ? 1 : 0;
  top->in_sack = request.ack.sack.value();
  top->in_nack = static_cast<uint8_t>(request.ack.nack);
  top->in_ece = request.ack.ece ? 1 : 0;
  top->in_copy = request.ack.copy ? 1 : 0;
  top->in_sample = request.ack.sample ? 1 : 0;
  top->in_echo = request.ack.echoed_timestamp;
  top->in_delay_us = static_cast<uint8_t>(request.ack.delay_us);
  top->in_vp = request.ack.vp;
}

SenderDevice::Cycle SenderDevice::step(const SenderRequest* request) {
  VerilatedModule<Vmp_sender>& top = *module_;
  top->in_valid = request != nullptr ? 1 : 0;
  if (request != nullptr) give(*request);
  top.begin();
  Cycle out;
  out.taken = request != nullptr && top->in_ready != 0;
  if (top->maps_valid != 0) {
    maps_.push_back({.connection = top->maps_connection, .context = {}});
    get_maps(top->maps_written, &maps_.back().context);
  }
  if (top->out_valid != 0) out.reply = reply();
  top.end();
  return out;
}

bool SenderDevice::reset(const SenderRequest& request) {
  (*module_)->reset = 1;
  const bool taken = step(&request).taken;
  (*module_)->reset = 0;
  maps_.clear();
  return taken;
}

SenderReply SenderDevice::reply() {
  VerilatedModule<Vmp_sender>& top = *module_;
  SenderReply out{.connection = top->out_connection,
                  .refused = top->out_refused != 0,
                  .packet = top->out_packet,
                  .psn = 0,
                  .vp = 0,
                  .restarts = top->out_restarts != 0,
                  .progresses = top->out_progresses != 0,
                  .state = {}};
  if (out.packet != 0) {
    out.psn = top->out_psn;
    out.vp = top->out_vp;
  }
  // Answers come in the order in which the maps are written.
  if (!maps_.empty()) {
    if (maps_.front().connection == out.connection) out.state.context = maps_.front().context;
    maps_.pop_front();
  }
  get(top->out_state, &out.state);
  return out;
}

}  // namespace mprdma::offload
