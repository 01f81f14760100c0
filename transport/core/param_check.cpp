#include "transport/core/param_check.hpp"

#include "wire/print.hpp"

namespace mprdma::transport {

namespace {

using wire::TextWriter;

// Checks relations between parameters; requires that each is in its range.
ParamFault find_relation_fault(const Params& p) {
  const bool roce = p.protocol == Protocol::kRoce;
  if (!roce && p.initial_window > p.window_slots)
    return {"initial_window", "exceeds", "window_slots"};
  if (p.window_max < p.initial_window) return {"window_max", "is below", "initial_window"};
  if (p.loss_trigger > p.window_slots) return {"loss_trigger", "exceeds", "window_slots"};
  if (p.reorder_delta > p.window_slots) return {"reorder_delta", "exceeds", "window_slots"};
  if (p.rto_ceiling < p.rto_floor) return {"rto_ceiling_us", "is below", "rto_floor_us"};
  if (p.timely_high < p.timely_low) return {"timely_high_us", "is below", "timely_low_us"};
  // The paper's sweep is driven by what acknowledgements clock out.
  if (p.recovery == Recovery::kPaper && !is_clocked(p.path_policy)) {
    return {"recovery", "= \"paper\" needs", "path_policy \"ack-clocked\" or \"recycled\""};
  }
  // What it sends again leaves without a credit.
  if (p.protocol == Protocol::kMp && p.recovery == Recovery::kIrn && is_clocked(p.path_policy)) {
    return {"recovery", "= \"irn\" needs",
            "another path_policy than \"ack-clocked\" or \"recycled\""};
  }
  if (roce && p.path_policy != PathPolicy::kSingle) {
    return {"path_policy", "has to be \"single\" with", "mode = \"roce\""};
  }
  if (p.protocol == Protocol::kIrn) {
    if (p.path_policy != PathPolicy::kSingle) {
      return {"path_policy", "has to be \"single\" with", "mode = \"irn\""};
    }
    if (p.recovery != Recovery::kIrn) {
      return {"recovery", "has to be \"irn\" with", "mode = \"irn\""};
    }
    if (p.ack_map) return {"ack_map", "has to be false with", "mode = \"irn\""};
  }
  // RoCE goes back to the lost packet: what streams choose has no effect, so it is left alone.
  if (roce && p.recovery != Params::roce().recovery) {
    return {"recovery", "has to be \"mp\" with", "mode = \"roce\""};
  }
  if (!roce && p.go_back_0)
    return {"go_back_0", "has to be false with",
            p.protocol == Protocol::kIrn ? "mode = \"irn\"" : "mode = \"mp\""};
  if (p.rto_low > p.rto_high) return {"rto_low_us", "exceeds", "rto_high_us"};
  // The standard's acknowledgements echo no marks.
  if (roce && controls_roce_window(p) && cc::needs_marks(p.window_control)) {
    return {"window_control", "has to be \"mp\", \"aimd\" or \"swift\" with", "mode = \"roce\""};
  }
  return {};
}

std::string_view unit_text(Unit unit) {
  switch (unit) {
    case Unit::kNone:
      return "a whole number in ";
    case Unit::kPackets:
      return "packets, ";
    case Unit::kMicroseconds:
      return "microseconds, ";
    case Unit::kPerMille:
      return "per mille, ";
    case Unit::kMbps:
      return "Mb/s, ";
  }
  return "";
}

void write(TextWriter& out, bool value) {
  out.text(value ? "true" : "false");
}
void write(TextWriter& out, uint32_t value) {
  out.dec(value);
}
// Writes rest / whole, below one. The decimal expansion ends, because the prime factors of `whole`
// are two and five.
void write_fraction(TextWriter& out, uint64_t rest, uint64_t whole) {
  if (rest != 0) out.text(".");
  while (rest != 0) {
    rest *= 10;
    out.dec(rest / whole);
    rest %= whole;
  }
}
void write(TextWriter& out, Duration value) {
  const auto ns = static_cast<uint64_t>(value.count_ns());
  out.dec(ns / 1000);
  write_fraction(out, ns % 1000, 1000);
}
void write(TextWriter& out, Fixed16 value) {
  out.dec(value.floor());
  write_fraction(out, value.raw() % Fixed16::kOneRaw, Fixed16::kOneRaw);
}
template <class Choice>
requires(std::is_enum_v<Choice>) void write(TextWriter& out, Choice value) {
  out.text(word_of(value));
}

}  // namespace

ParamFault find_fault(const Params& params) {
  std::string_view out_of_range;
  for_each_param([&](const Param& param, auto member) {
    const ParamRange range = param.range.in(params.protocol);
    if (out_of_range.empty() && !in_range(range, params.*member)) out_of_range = param.key;
  });
  if (!out_of_range.empty()) return {out_of_range, "is out of its range", ""};
  return find_relation_fault(params);
}

std::string_view expected_text(const Param& param, Protocol protocol, std::span<char> out) {
  TextWriter writer(out);
  if (param.kind == ParamKind::kFlag) return writer.text("true or false").view();
  if (param.kind == ParamKind::kChoice) {
    std::string_view before = "one of \"";
    for (const std::string_view word : param.words) {
      writer.text(before).text(word).text("\"");
      before = ", \"";
    }
    return writer.view();
  }
  const ParamRange range = param.range.in(protocol);
  if (range.has_to_be_power) {
    writer.text("a power of two in ");
  } else if (param.kind == ParamKind::kFixed) {
    writer.text("a number in ");
  } else {
    writer.text(unit_text(range.unit));
  }
  if (range.zero_too) writer.text("0 or ");
  return writer.dec(range.low).text("..").dec(range.high).view();
}

std::string_view value_text(const Params& params, std::string_view key, std::span<char> out) {
  TextWriter writer(out);
  for_each_param([&](const Param& param, auto member) {
    if (param.key == key) write(writer, params.*member);
  });
  return writer.view();
}

}  // namespace mprdma::transport
