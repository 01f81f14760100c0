#include "switchsim/fabric/link_change.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <cmath>

namespace mprdma::switchsim {

namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr Unit kRateUnits[] = {{"kbps", 1e3}, {"kb/s", 1e3}, {"Mbps", 1e6},
                               {"Mb/s", 1e6}, {"Gbps", 1e9}, {"Gb/s", 1e9}};
constexpr Unit kDelayUnits[] = {{"ns", 1e3}, {"us", 1e6}, {"ms", 1e9}, {"s", 1e12}};
constexpr Unit kByteUnits[] = {{"B", 1}, {"kB", 1e3}, {"MB", 1e6}};
constexpr Unit kShareUnits[] = {{"", 1}, {"%", 0.01}};

constexpr double kRateMin = 1e5;
constexpr double kRateMax = 1e12;
constexpr double kDelayMaxPs = 10e12;
constexpr double kBytesMax = 1e9;

// Parses a number and one of the units, with or without spaces between them.
template <size_t n>
bool parse_with_unit(std::string_view text, const Unit (&units)[n], double* out) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (parsed.ec != std::errc{} || !std::isfinite(number)) return false;
  std::string_view unit(parsed.ptr, static_cast<size_t>(end - parsed.ptr));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  for (const Unit& known : units) {
    if (unit != known.name) continue;
    *out = number * known.factor;
    return true;
  }
  return false;
}

std::string shortest(double number, std::string_view unit) {
  return fmt::format("{:.6g}{}", number, unit);
}

}  // namespace

bool parse_rate(std::string_view text, LinkRate* out) {
  double bps = 0;
  if (!parse_with_unit(text, kRateUnits, &bps) || bps < kRateMin || bps > kRateMax) return false;
  *out = LinkRate::bps(static_cast<uint64_t>(std::llround(bps)));
  return true;
}

bool parse_loss(std::string_view text, uint32_t* ppm) {
  double share = 0;
  if (!parse_with_unit(text, kShareUnits, &share) || share < 0 || share > 1) return false;
  *ppm = static_cast<uint32_t>(std::llround(share * 1e6));
  return true;
}

bool parse_delay(std::string_view text, SimSpan* out) {
  double ps = 0;
  if (!parse_with_unit(text, kDelayUnits, &ps) || ps < 0 || ps > kDelayMaxPs) return false;
  *out = SimSpan::ps(std::llround(ps));
  return true;
}

bool parse_bytes(std::string_view text, uint64_t* bytes) {
  double value = 0;
  if (!parse_with_unit(text, kByteUnits, &value) || value < 1 || value > kBytesMax) return false;
  *bytes = static_cast<uint64_t>(std::llround(value));
  return true;
}

bool make_red(double pmax, double kmin_kb, double kmax_kb, RedConfig* out) {
  const bool good =
      pmax > 0 && pmax <= 1 && kmin_kb >= 0 && kmax_kb >= kmin_kb && kmax_kb > 0 && kmax_kb <= 1e6;
  if (!good) return false;
  *out = RedConfig{};
  out->pmax_ppm = static_cast<uint32_t>(std::llround(pmax * 1e6));
  out->kmin_bytes = static_cast<uint32_t>(std::llround(kmin_kb * 1000));
  out->kmax_bytes = static_cast<uint32_t>(std::llround(kmax_kb * 1000));
  return true;
}

bool parse_red(std::string_view text, RedConfig* out) {
  if (text == "off") {
    *out = RedConfig{};
    return true;
  }
  double numbers[3] = {};
  for (int i = 0; i < 3; ++i) {
    const size_t comma = text.find(',');
    if ((comma == std::string_view::npos) != (i == 2)) return false;
    const std::string_view part = text.substr(0, comma);
    const auto parsed = std::from_chars(part.data(), part.data() + part.size(), numbers[i],
                                        std::chars_format::fixed);
    if (parsed.ec != std::errc{} || parsed.ptr != part.data() + part.size()) return false;
    text = i == 2 ? std::string_view{} : text.substr(comma + 1);
  }
  return make_red(numbers[0], numbers[1], numbers[2], out);
}

Status parse_change(std::string_view word, LinkChange* out) {
  if (word == "up" || word == "down") {
    out->up = word == "up";
    return {};
  }
  const size_t equals = word.find('=');
  const std::string_view key = word.substr(0, equals);
  const std::string_view value =
      equals == std::string_view::npos ? std::string_view{} : word.substr(equals + 1);
  const auto checked = [&](bool good, const char* expected) -> Status {
    if (good) return {};
    return {EINVAL, fmt::format("{}: expected {}", word, expected)};
  };
  if (key == "rate") {
    out->rate.emplace();
    return checked(parse_rate(value, &*out->rate), "a rate like rate=200Mbps, up to 1000Gbps");
  }
  if (key == "loss") {
    out->loss_ppm.emplace();
    return checked(parse_loss(value, &*out->loss_ppm), "a share like loss=1% or loss=0.01");
  }
  if (key == "delay") {
    out->delay.emplace();
    return checked(parse_delay(value, &*out->delay), "a time like delay=20us, up to 10s");
  }
  if (key == "queue") {
    out->queue_bytes_max.emplace();
    return checked(parse_bytes(value, &*out->queue_bytes_max), "bytes, like queue=500kB");
  }
  if (key == "red") {
    out->red.emplace();
    return checked(parse_red(value, &*out->red),
                   "red=off or red=PMAX,KMIN,KMAX with the K in kB, like red=1,20,60");
  }
  return {EINVAL, fmt::format("{}: known are up, down, rate=, loss=, delay=, queue=, red=", word)};
}

std::string rate_text(LinkRate rate) {
  const auto bps = static_cast<double>(rate.bits_per_second());
  if (bps >= 1e9) return shortest(bps / 1e9, "Gbps");
  return bps >= 1e6 ? shortest(bps / 1e6, "Mbps") : shortest(bps / 1e3, "kbps");
}

std::string delay_text(SimSpan delay) {
  const auto ps = static_cast<double>(delay.count_ps());
  if (ps >= 1e9) return shortest(ps / 1e9, "ms");
  return ps >= 1e6 ? shortest(ps / 1e6, "us") : shortest(ps / 1e3, "ns");
}

}  // namespace mprdma::switchsim
