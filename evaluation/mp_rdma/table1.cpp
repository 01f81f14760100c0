// Table 1: what multi-path adds to the state of a connection, itemised from the list of
// transport/stream/offload_context.hpp.
#include <fmt/format.h>

#include <cstring>

#include "evaluation/list.hpp"
#include "transport/stream/offload_context.hpp"

namespace mprdma::figures {

namespace {

using transport::OffloadContext;

struct Field {
  const char* name;
  size_t bytes;
  const char* what;
};

#define MPRDMA_FIELD(name, type, bytes, what) {#name, bytes, what},
constexpr Field kFields[] = {MPRDMA_OFFLOAD_CONTEXT(MPRDMA_FIELD)};
#undef MPRDMA_FIELD

// The paper's in_flight and recovery (3.2, 3.4), which the deviations replace: a count and two
// PSNs.
constexpr double kPaperRecoveryBytes = 9;

bool is_deviation(const Field& field) {
  return std::strstr(field.what, "[deviation]") != nullptr;
}

}  // namespace

FigureResult extra_state(const Figure& /*figure*/, const RunOptions& /*options*/) {
  FigureResult out;
  double sum = 0;
  double deviations = 0;
  Panel panel{"", "", "bytes", {}};
  Curve curve{"", {}, {}, {}, Stroke::kBars, 0};
  for (const Field& field : kFields) {
    const auto bytes = static_cast<double>(field.bytes);
    sum += bytes;
    deviations += is_deviation(field) ? bytes : 0;
    out.report(fmt::format("table1.{}", field.name), fmt::format("{}: {}", field.name, field.what),
               "", bytes, 0, "bytes", "");
    curve.x.push_back(static_cast<double>(curve.x.size()));
    curve.y.push_back(bytes);
    panel.categories.emplace_back(field.name);
    // The names stand in two rows, because they would overlap in one.
    if (panel.categories.size() % 2 == 0) panel.categories.back().insert(0, "\n");
  }
  const auto packed = static_cast<double>(OffloadContext().pack().size());
  out.claim("table1.bytes",
            "of the paper's own algorithm: what is no deviation, and inflate, snd_retx, recovery",
            "<= 66", sum - deviations + kPaperRecoveryBytes, 0, "bytes");
  out.claim("table1.sum", "packed / sum of the fields", "== 1", packed / sum, 0, "");
  out.own_target();
  out.report("table1.deviations", "for what the paper does not have (deviations from it)", "",
             deviations, 0, "bytes", "");
  out.report("table1.packed", "all fields, packed", "", packed, 0, "bytes", "");
  curve.x.push_back(static_cast<double>(curve.x.size()));
  curve.y.push_back(sum);
  panel.categories.emplace_back(panel.categories.size() % 2 == 0 ? "all" : "\nall");
  panel.marks = {{transport::kPaperContextBytes, "paper: 66 in all", true}};
  panel.ymax = 125;
  panel.curves = {curve};
  panel.legend = false;
  out.panels.push_back(panel);
  out.constants.set("paper_bytes", uint64_t{transport::kPaperContextBytes});
  out.deviations =
      "The fields are those of the context that a live sender is moved into and out of "
      "(offload_params()). The deviations from the paper need maps of 128 packets, because what a "
      "full receive window drops lies above the 64 that it holds. Left out are the deviations that "
      "hardware does without: the credit of the own acknowledgement, the measured timeout, losses "
      "by time, repeated synchronise operations, and the slots beyond 64.";
  out.setup =
      "The offload context: one sending and one receiving half at L = 64, counted when it "
      "compiles; "
      "what is in it and what is not: docs/algorithms.md";
  out.seen =
      "The paper's algorithm fits its 66 bytes, our deviations do not, whatever the number of "
      "paths";
  return out;
}

}  // namespace mprdma::figures
