#include "tools/fabric/fabric_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "switchsim/fabric/link_change.hpp"

namespace mprdma::tools {

namespace {

using nlohmann::json;

std::string bits_text(double bps) {
  return bps < 1e5 ? "-"
                   : switchsim::rate_text(switchsim::LinkRate::bps(static_cast<uint64_t>(bps)));
}

uint64_t number(const json& from, const char* key) {
  return from.value(key, uint64_t{0});
}

// "queue 3 loss 7", the causes that are not zero.
std::string drops_text(const json& from) {
  std::string text;
  for (const auto& [key, value] : from.items()) {
    constexpr std::string_view kPrefix = "drop_";
    if (!key.starts_with(kPrefix) || value == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", key.substr(kPrefix.size()),
                        value.get<uint64_t>());
  }
  return text.empty() ? "-" : text;
}

std::string hosts_table(const json& now) {
  std::string out = fmt::format("{:<12} {:<18} {:<6} {:<5} {:>12} {:>12}  {}\n", "HOST", "ADDRESS",
                                "PORT", "LINK", "FRAMES IN", "FRAMES OUT", "DROPS");
  for (const json& host : now["hosts"]) {
    out += fmt::format("{:<12} {:<18} {:<6} {:<5} {:>12} {:>12}  {}\n",
                       host["name"].get<std::string>(), host["ip"].get<std::string>(),
                       host["port"].get<std::string>(), host["up"].get<bool>() ? "up" : "down",
                       number(host, "frames_in"), number(host, "frames_out"), drops_text(host));
  }
  return out;
}

std::string links_table(const json& now, const json& before) {
  const bool live = !before.is_null();
  const double seconds =
      live ? now["uptime_s"].get<double>() - before["uptime_s"].get<double>() : 0;
  std::string out =
      fmt::format("\n{:<12} {:<16} {:<5} {:>9} {:>8} {:>6} {:>12} {:>12} {:>9} {:>8}  {}\n", "LINK",
                  "DIRECTION", "STATE", "RATE", "DELAY", "LOSS", "PACKETS",
                  live ? "THROUGHPUT" : "BYTES", "MARKED", "QUEUE B", "DROPS");
  for (size_t i = 0; i < now["links"].size(); ++i) {
    const json& link = now["links"][i];
    for (size_t d = 0; d < 2; ++d) {
      const json& direction = link["directions"][d];
      uint64_t bytes = number(direction, "bytes");
      std::string moved = std::to_string(bytes);
      if (live && seconds > 0) {
        bytes -= std::min(bytes, number(before["links"][i]["directions"][d], "bytes"));
        moved = bits_text(static_cast<double>(bytes) * 8 / seconds);
      }
      out += fmt::format(
          "{:<12} {:<16} {:<5} {:>9} {:>6}us {:>5.3g}% {:>12} {:>12} {:>9} {:>8}  {}\n",
          d == 0 ? link["name"].get<std::string>() : "",
          direction["from"].get<std::string>() + " > " + direction["to"].get<std::string>(),
          link["up"].get<bool>() ? "up" : "down", bits_text(direction["rate_bps"].get<double>()),
          direction["delay_us"].get<double>(), direction["loss"].get<double>() * 100,
          number(direction, "packets"), moved, number(direction, "marked"),
          number(direction, "queue_bytes"), drops_text(direction));
    }
  }
  return out;
}

}  // namespace

std::string fabric_table(const json& now, const json& before) {
  const auto since = [&](const char* key) {
    return now.value(key, 0.0) - (before.is_null() ? 0 : before.value(key, 0.0));
  };
  return fmt::format("fabric {}, up for {:.0f} s, {:.0f} % of a processor\n\n",
                     now["name"].get<std::string>(), now["uptime_s"].get<double>(),
                     100 * since("processor_s") / std::max(since("uptime_s"), 1e-3)) +
         hosts_table(now) + links_table(now, before);
}

}  // namespace mprdma::tools
