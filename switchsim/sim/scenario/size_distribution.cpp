#include "switchsim/sim/scenario/size_distribution.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/check.hpp"
#include "switchsim/config/read_file.hpp"
#include "transport/core/types.hpp"

namespace mprdma::switchsim {

namespace {

using Row = SizeDistribution::Row;

constexpr std::string_view kBlank = " \t\r";

std::string_view next_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(kBlank), line.size()));
  const std::string_view word = line.substr(0, line.find_first_of(kBlank));
  line.remove_prefix(word.size());
  return word;
}

template <class T>
bool parse_number(std::string_view word, T* out) {
  const char* const end = word.data() + word.size();
  const auto [rest, error] = std::from_chars(word.data(), end, *out);
  return error == std::errc{} && rest == end && !word.empty();
}

// Errors say what is wrong with the line.
Status parse_row(std::string_view line, const std::vector<Row>& before, Row* row) {
  const std::string_view bytes = next_word(line);
  const std::string_view probability = next_word(line);
  if (!next_word(line).empty() || !parse_number(bytes, &row->bytes) ||
      !parse_number(probability, &row->probability)) {
    return {EINVAL, "expected a whole number of bytes and a cumulative probability"};
  }
  if (row->bytes > transport::kMaxMessageBytes) {
    return {EINVAL,
            fmt::format("{} bytes: expected at most {}", row->bytes, transport::kMaxMessageBytes)};
  }
  if (!(row->probability >= 0 && row->probability <= 1)) {
    return {EINVAL, fmt::format("probability {}: expected 0..1", row->probability)};
  }
  if (!before.empty() && row->bytes < before.back().bytes) {
    return {EINVAL, "expected ascending bytes"};
  }
  if (!before.empty() && row->probability < before.back().probability) {
    return {EINVAL, "expected ascending probabilities"};
  }
  return {};
}

}  // namespace

Status SizeDistribution::parse(std::string_view text, const std::string& path,
                               SizeDistribution* out) {
  SizeDistribution result;
  uint32_t line_number = 0;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    ++line_number;
    const size_t first = line.find_first_not_of(kBlank);
    if (first == std::string_view::npos || line[first] == '#') continue;
    Row row;
    Status status = parse_row(line, result.rows_, &row);
    if (!status.ok()) return prefixed(fmt::format("{}:{}: ", path, line_number), std::move(status));
    result.rows_.push_back(row);
  }
  if (result.rows_.empty() || result.rows_.back().probability != 1) {
    return {EINVAL,
            fmt::format("{}:{}: expected a last row with probability 1", path, line_number)};
  }
  *out = std::move(result);
  return {};
}

Status SizeDistribution::load(const std::string& name_or_path, SizeDistribution* out) {
  std::vector<std::string_view> names;
  for (const WorkloadFile& file : workload_files()) {
    names.push_back(file.name);
    if (file.name != name_or_path) continue;
    Status status = parse(file.text, name_or_path, out);
    out->built_in_ = status.ok();
    return status;
  }
  std::string text;
  const Status status = read_file(name_or_path, &text);
  if (!status.ok()) {
    return {status.error, fmt::format("{}, and none of {}", status.text, fmt::join(names, ", "))};
  }
  return parse(text, name_or_path, out);
}

uint64_t SizeDistribution::draw(Prng& prng) const {
  DCHECK(!rows_.empty());
  const double u = static_cast<double>(prng.next_u64() >> 11) * 0x1p-53;  // [0, 1)
  const auto above =
      std::upper_bound(rows_.begin(), rows_.end(), u,
                       [](double value, const Row& row) { return value < row.probability; });
  const Row& high = above == rows_.end() ? rows_.back() : *above;
  uint64_t bytes = high.bytes;
  if (above != rows_.begin() && above != rows_.end()) {
    const Row& low = *(above - 1);
    const double part = (u - low.probability) / (high.probability - low.probability);
    // The size is rounded up, so that the probability of sizes up to a whole number is exactly the
    // line's.
    bytes = low.bytes +
            static_cast<uint64_t>(std::ceil(part * static_cast<double>(high.bytes - low.bytes)));
  }
  return std::max<uint64_t>(bytes, 1);
}

double SizeDistribution::mean() const {
  double sum = rows_.front().probability * static_cast<double>(rows_.front().bytes);
  for (size_t i = 1; i < rows_.size(); ++i) {
    sum += (rows_[i].probability - rows_[i - 1].probability) *
           static_cast<double>(rows_[i].bytes + rows_[i - 1].bytes) / 2;
  }
  return sum;
}

double SizeDistribution::share_up_to(double bytes) const {
  double share = 0;
  for (size_t i = 0; i < rows_.size() && static_cast<double>(rows_[i].bytes) <= bytes; ++i) {
    share = rows_[i].probability;
    if (i + 1 == rows_.size() || static_cast<double>(rows_[i + 1].bytes) <= bytes) continue;
    const Row& next = rows_[i + 1];
    share += (next.probability - share) * (bytes - static_cast<double>(rows_[i].bytes)) /
             static_cast<double>(next.bytes - rows_[i].bytes);
  }
  return share;
}

}  // namespace mprdma::switchsim
