#include "tests/conformance/runner/runner.hpp"

#include <cstring>

#include "tests/conformance/runner/pattern.hpp"
#include "tests/conformance/runner/vocabulary.hpp"

namespace mprdma::conformance {

namespace {

using transport::Completion;

constexpr int kTimersWithoutTime = 1000;

std::string after(Time since, Time now) {
  return std::to_string((now - since).count_ns()) + " ns after the start";
}

void check_value(const Step& step, std::string_view key, uint64_t got, const std::string& all) {
  if (step.has(key) && step.number(key) != got) {
    step.fail("expected " + std::string(key) + "=" + step.text(key) + ", got " + all);
  }
}

void check_completion(const Step& step, const Device& device, const Completion& got) {
  const std::string all = describe(got);
  check_value(step, "wr", got.wr_id, all);
  const auto status = value_of(step, step.text_or("status", "success"), kStatuses);
  if (got.status != status) {
    step.fail("expected status=" + word_of(status, kStatuses) + ", got " + all);
  }
  if (step.has("op") && value_of(step, step.text("op"), kWcOpcodes) != got.opcode) {
    step.fail("expected op=" + step.text("op") + ", got " + all);
  }
  check_value(step, "len", got.byte_len, all);
  check_value(step, "vendor", got.vendor_err, all);
  check_value(step, "solicited", got.solicited ? 1 : 0, all);
  check_value(step, "grh", got.has_grh ? 1 : 0, all);
  check_value(step, "src", got.src_qpn.value(), all);
  check_value(step, "srq", got.shared != nullptr ? 1 : 0, all);
  if (got.status != transport::WcStatus::kSuccess) return;
  if (got.has_imm != step.has("imm")) step.fail("immediate data differs: got " + all);
  check_value(step, "imm", got.imm, all);
  if (got.invalidated != step.has("inv")) step.fail("the invalidated key differs: got " + all);
  if (step.has("inv") && device.key(step, step.text("inv")) != Key(got.imm)) {
    step.fail("expected inv=" + step.text("inv") + ", got " + all);
  }
}

}  // namespace

void Runner::run() {
  start_ = last_ = device_.now;
  for (const Step& step : script_.steps) {
    try {
      execute(step);
    } catch (const ScriptFailure& failure) {
      if (failure.line() != 0) throw;
      step.fail(failure.what());  // the device broke an invariant
    }
  }
  if (!device_.outputs.empty()) {
    throw ScriptFailure(
        script_.steps.back().line,
        "after the last step, expected nothing more; got " + device_.outputs.describe());
  }
}

// ---- Time --------------------------------------------------------------------------------------

void Runner::check_nothing_unclaimed(const Step& step) const {
  if (device_.outputs.empty()) return;
  step.fail("before this step, expected nothing (" + after(start_, device_.now) + "); got " +
            device_.outputs.describe());
}

// Runs until the device does something, at most until the given time.
void Runner::advance(const Step& step, Time until) {
  int idle = 0;
  while (device_.outputs.empty()) {
    const Time next = device_.next_deadline();
    if (next > until) {
      device_.now = std::max(device_.now, until);
      return;
    }
    idle = next <= device_.now ? idle + 1 : 0;
    if (idle > kTimersWithoutTime) step.fail("a timer of the device fires for ever");
    device_.now = std::max(device_.now, next);
    device_.run_timers();
  }
}

// The time of a step that acts: the device must do nothing before it.
void Runner::reach(const Step& step) {
  const Time at = (step.time.absolute ? start_ : last_) + step.time.from;
  if (at < device_.now) step.fail("time cannot go back: it is " + after(start_, device_.now));
  advance(step, at);
  check_nothing_unclaimed(step);
}

// The time of a step that expects something, which must come neither before nor after it.
void Runner::wait_for_output(const Step& step) {
  const Time base = step.time.absolute ? start_ : last_;
  const Time from = base + step.time.from;
  const Time to = base + step.time.to;
  if (to < device_.now) step.fail("time cannot go back: it is " + after(start_, device_.now));
  advance(step, to);
  if (device_.outputs.empty()) {
    step.fail("expected something until now (" + after(start_, device_.now) + "), got nothing");
  }
  if (device_.now < from) {
    step.fail("expected nothing before " + after(start_, from) + "; got, " +
              after(start_, device_.now) + ": " + device_.outputs.describe());
  }
}

// ---- Steps -------------------------------------------------------------------------------------

void Runner::execute(const Step& step) {
  if (step.kind == "memory" || step.kind == "state" || step.kind == "counter") {
    if (step.time.from > Duration::zero() || step.time.absolute) reach(step);
    expect(step);
  } else if (expects(step)) {
    wait_for_output(step);
    expect(step);
  } else {
    check_nothing_unclaimed(step);
    reach(step);
    act(step);
  }
  last_ = device_.now;
}

void Runner::act(const Step& step) {
  const auto count = static_cast<uint32_t>(step.number_or("count", 1));
  if (step.kind == "qp") device_.make_qp(step);
  if (step.kind == "modify") device_.modify(step);
  if (step.kind == "mr") device_.make_region(step);
  if (step.kind == "dereg") device_.remove_region(step);
  if (step.kind == "mw") device_.make_window(step);
  if (step.kind == "srq") device_.make_shared_queue(step);
  if (step.kind == "send") device_.post_send(step);
  if (step.kind == "recv") device_.post_recv(step);
  if (step.kind == "wire") device_.set_wire(step);
  if (step.kind == "fill") fill(step);
  if (step.kind != "<") return;
  for (uint32_t i = 0; i < count; ++i) {
    if (i > 0) check_nothing_unclaimed(step);
    device_.inject(step.later_by(i));
  }
}

void Runner::expect(const Step& step) {
  Outputs& outputs = device_.outputs;
  if (step.kind == ">") expect_packets(step);
  if (step.kind == "send_wc") expect_completion(step, outputs.send_completions);
  if (step.kind == "recv_wc") expect_completion(step, outputs.recv_completions);
  if (step.kind == "event") expect_event(step);
  if (step.kind == "memory") check_memory(step);
  if (step.kind == "state") {
    const auto expected = value_of(step, step.subject, kStates);
    const auto got = device_.state_of(step);
    if (got != expected) step.fail("expected " + step.subject + ", got " + word_of(got, kStates));
    check_value(step, "draining", device_.draining(step) ? 1 : 0, "another");
  }
  if (step.kind == "counter" && device_.counter(step) != step.number("is")) {
    step.fail("expected " + step.text("is") + ", got " + std::to_string(device_.counter(step)));
  }
}

template <class What>
What Runner::claim(const Step& step, std::deque<Output<What>>& queue) {
  if (queue.empty()) {
    const std::string got = device_.outputs.empty() ? "nothing" : device_.outputs.describe();
    step.fail("expected a '" + step.kind + "', got " + got);
  }
  Output<What> output = std::move(queue.front());
  queue.pop_front();
  if (output.qp != device_.name_of(step)) {
    step.fail("expected it of qp " + device_.name_of(step) + ", got it of qp " + output.qp);
  }
  return std::move(output.what);
}

void Runner::expect_packets(const Step& step) {
  const auto count = static_cast<uint32_t>(step.number_or("count", 1));
  const KeyOf key_of = [this](const Step& s, std::string_view text) {
    return device_.key(s, text);
  };
  for (uint32_t i = 0; i < count; ++i) {
    const WirePacket got = claim(step, device_.outputs.packets);
    check_packet(step.later_by(i), device_.dialect_of(step), key_of, got);
  }
}

void Runner::expect_completion(const Step& step, std::deque<Output<Completion>>& queue) {
  check_completion(step, device_, claim(step, queue));
}

void Runner::expect_event(const Step& step) {
  const auto expected = value_of(step, step.subject, kEvents);
  const transport::QpEvent got = claim(step, device_.outputs.events);
  if (got != expected) step.fail("expected " + step.subject + ", got " + word_of(got, kEvents));
}

void Runner::fill(const Step& step) {
  const uint64_t length = step.number_or("len", sizeof(uint64_t));
  uint8_t* to = device_.at(step, step.number("at"), length);
  if (step.has("u64")) {
    const uint64_t value = step.number("u64");
    std::memcpy(to, &value, sizeof(value));
    return;
  }
  const std::vector<uint8_t> bytes = pattern_of(step, step.text("with")).bytes(length);
  std::memcpy(to, bytes.data(), bytes.size());
}

void Runner::check_memory(const Step& step) {
  const uint64_t length = step.number_or("len", sizeof(uint64_t));
  const uint8_t* from = device_.at(step, step.number("at"), length);
  if (step.has("u64")) {
    uint64_t got = 0;
    std::memcpy(&got, from, sizeof(got));
    if (got != step.number("u64")) {
      step.fail("expected u64=" + step.text("u64") + ", got " + std::to_string(got));
    }
    return;
  }
  const std::string wrong = difference(pattern_of(step, step.text("is")), from, length);
  if (!wrong.empty()) step.fail("expected is=" + step.text("is") + ", but " + wrong);
}

}  // namespace mprdma::conformance
