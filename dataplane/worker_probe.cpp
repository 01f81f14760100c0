// Answers to path probes (wire/probe_mad.hpp), of an engine that owns its port.
#include <cstring>

#include "dataplane/worker.hpp"

namespace mprdma::dataplane {

// Requires: `head` is the beginning of the payload of decoded_.
void Worker::receive_probe(std::span<const unsigned char, wire::kMadBytes> head, Time now,
                           TxBatch& answers) {
  wire::ProbeMad question;
  wire::FrameAddress back;
  // We ask nobody: a response is an answer to nothing.
  if (wire::decode_probe_mad(head, decoded_.packet.payload_len, question) != wire::MadDrop::kNone ||
      question.response || !address_of_probe_answer(decoded_.address, &back)) {
    ++counters_.drop_bad_probe;
    return;
  }
  if (!probe_limit_.take(now)) {
    ++counters_.probes_refused;
    return;
  }
  const wire::ProbeMad mad = answer_to_probe(question, decoded_);
  const wire::Packet packet = probe_packet(decoded_.packet.vp, mad.bytes, mad_psn_);
  const size_t most =
      wire::frame_header_bytes(back, packet) + mad.bytes + wire::kMaxFrameTrailerBytes;
  TxFrame* frame = most <= port_info_.frame_bytes_max ? answers.next() : nullptr;
  if (frame == nullptr) return;
  if (frame->capacity < mad.bytes + wire::kMaxFrameTrailerBytes) return answers.put_back();
  mad_psn_ += 1;
  wire::encode_probe_mad(mad, frame->payload);
  const size_t header_bytes = wire::encode_frame(back, packet, frame->payload);
  frame->header_bytes = static_cast<uint32_t>(header_bytes);
  frame->frame_bytes = static_cast<uint32_t>(wire::finish_frame(
      frame->payload - header_bytes, header_bytes, mad.bytes, port_info_.can_corrupt));
  ++counters_.frames_out;
  ++counters_.probes_answered;
}

}  // namespace mprdma::dataplane
