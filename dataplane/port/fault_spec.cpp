#include "dataplane/port/fault_spec.hpp"

#include <cerrno>
#include <cmath>
#include <cstdlib>

namespace mprdma::dataplane {

namespace {

constexpr double kMillion = 1'000'000;

bool parse_number(const std::string& text, double low, double high, double* out) {
  char* end = nullptr;
  errno = 0;
  *out = std::strtod(text.c_str(), &end);
  return errno == 0 && end != text.c_str() && *end == '\0' && *out >= low && *out <= high;
}

bool parse_share(const std::string& text, uint32_t* ppm) {
  double share = 0;
  if (!parse_number(text, 0, 1, &share)) return false;
  *ppm = static_cast<uint32_t>(std::lround(share * kMillion));
  return true;
}

Status apply(const std::string& key, const std::string& value, FaultSpec* out) {
  double number = 0;
  if (key == "seed") {
    if (!parse_number(value, 0, 9e15, &number))
      return {EINVAL, "seed is not a whole number: " + value};
    out->seed = static_cast<uint64_t>(number);
  } else if (key == "delay_us") {
    if (!parse_number(value, 0, 1e7, &number))
      return {EINVAL, "delay_us is not in 0..10000000: " + value};
    out->delay = Duration::us(static_cast<int64_t>(number));
  } else if (key == "pause_after_ms") {
    if (!parse_number(value, 0, 1e7, &number))
      return {EINVAL, "pause_after_ms is not in 0..10000000: " + value};
    out->pause_after = Duration::ms(static_cast<int64_t>(number));
  } else if (key == "loss" || key == "reorder" || key == "dup") {
    uint32_t* ppm = key == "loss"      ? &out->loss_ppm
                    : key == "reorder" ? &out->reorder_ppm
                                       : &out->dup_ppm;
    if (!parse_share(value, ppm)) return {EINVAL, key + " is not a share in 0..1: " + value};
  } else {
    return {EINVAL, "unknown fault '" + key +
                        "'; known: seed, loss, reorder, dup, "
                        "delay_us, pause_after_ms"};
  }
  return {};
}

}  // namespace

Status parse_fault(std::string_view text, FaultSpec* out) {
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
    const size_t equals = part.find('=');
    if (equals == std::string_view::npos) {
      return {EINVAL, "'" + std::string(part) + "' is not KEY=VALUE"};
    }
    Status status =
        apply(std::string(part.substr(0, equals)), std::string(part.substr(equals + 1)), out);
    if (!status.ok()) return status;
  }
  return {};
}

}  // namespace mprdma::dataplane
