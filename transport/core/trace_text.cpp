#include "transport/core/trace_text.hpp"

#include <array>

namespace mprdma::transport {

namespace {

using wire::TextWriter;

constexpr std::string_view kKindNames[] = {
#define MPRDMA_TRACE_NAME(name, text) #name,
    MPRDMA_TRACE_KINDS(MPRDMA_TRACE_NAME)
#undef MPRDMA_TRACE_NAME
};

TextWriter& field(TextWriter& writer, std::string_view name, uint64_t value) {
  return writer.text(",\"").text(name).text("\":").dec(value);
}

TextWriter& field(TextWriter& writer, std::string_view name, std::string_view value) {
  return writer.text(",\"").text(name).text("\":\"").text(value).text("\"");
}

// Q16.16 as a decimal number with three digits behind the point.
void window_field(TextWriter& writer, uint32_t raw) {
  const uint64_t thousandths = (uint64_t{raw} * 1000) >> 16;
  const uint64_t rest = thousandths % 1000;
  field(writer, "window", thousandths / 1000).text(".");
  if (rest < 100) writer.text("0");
  if (rest < 10) writer.text("0");
  writer.dec(rest);
}

void stream_fields(TextWriter& writer, const TraceEvent& event) {
  const bool requests = event.stream == TraceStream::kRequests;
  field(writer, "stream", requests ? std::string_view("requests") : "responses");
  if (event.kind == TraceKind::refused || event.kind == TraceKind::undone) return;
  if (event.kind == TraceKind::not_ready) {
    field(writer, "until_ns", static_cast<uint64_t>(event.until.ns()));
    return;
  }
  window_field(writer, event.window_raw);
  field(writer, "in_flight", event.in_flight);
  field(writer, "credits", event.credits);
  field(writer, "srtt_ns", static_cast<uint64_t>(event.srtt_ns));
  if (event.kind == TraceKind::timeout) field(writer, "timeouts", event.timeouts);
}

void packet_fields(TextWriter& writer, const TraceEvent& event) {
  const wire::Packet& packet = event.packet;
  field(writer, "opcode", opcode_name(packet.opcode));
  field(writer, "vp", packet.vp);
  field(writer, "bytes", packet.payload_len);
  if (event.again) writer.text(",\"again\":true");
  if (packet.ce) writer.text(",\"ce\":true");
  std::array<char, wire::kTextBytes> text;
  field(writer, "packet", to_string(packet, text));
}

}  // namespace

std::string_view to_string(TraceKind kind) {
  return kKindNames[static_cast<size_t>(kind)];
}

std::string_view trace_text(const TraceEvent& event, std::string_view host, std::span<char> out) {
  TextWriter writer(out);
  writer.text("{\"ns\":").dec(static_cast<uint64_t>(event.now.ns()));
  if (!host.empty()) field(writer, "host", host);
  field(writer, "qpn", event.qpn.value());
  field(writer, "event", to_string(event.kind));
  field(writer, "psn", event.psn.value());
  if (!event.reason.empty()) field(writer, "reason", event.reason);
  switch (event.kind) {
    case TraceKind::state:
    case TraceKind::go_back:
      break;
    case TraceKind::send:
    case TraceKind::receive:
      packet_fields(writer, event);
      break;
    default:
      stream_fields(writer, event);
  }
  return writer.text("}\n").view();
}

}  // namespace mprdma::transport
