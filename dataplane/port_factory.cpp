#include "dataplane/port_factory.hpp"

#include <cerrno>
#include <charconv>
#include <string>

#include "dataplane/local_port.hpp"

namespace mprdma::dataplane {

namespace {

PortResult bad_option(std::string_view option, const char* known) {
  return PortResult::failure(
      EINVAL, "unknown or malformed port option '" + std::string(option) + "'; known: " + known);
}

// Cuts the text before the next comma off `rest`.
std::string_view next_part(std::string_view* rest) {
  const size_t comma = rest->find(',');
  const std::string_view part = rest->substr(0, comma);
  *rest = comma == std::string_view::npos ? std::string_view{} : rest->substr(comma + 1);
  return part;
}

bool parse_role(std::string_view text, local::Role* role) {
  if (text == "auto")
    *role = local::Role::kAuto;
  else if (text == "listen")
    *role = local::Role::kListen;
  else if (text == "dial")
    *role = local::Role::kDial;
  else
    return false;
  return true;
}

bool parse_number(std::string_view text, uint32_t* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc{} && end == text.data() + text.size();
}

PortResult open_local(std::string_view rest) {
  LocalPort::Options options;
  options.path = std::string(next_part(&rest));
  while (!rest.empty()) {
    const std::string_view option = next_part(&rest);
    const size_t equals = option.find('=');
    const std::string_view key = option.substr(0, equals);
    const std::string_view value =
        equals == std::string_view::npos ? std::string_view{} : option.substr(equals + 1);
    const bool good = (key == "slots" && parse_number(value, &options.slots)) ||
                      (key == "role" && parse_role(value, &options.role));
    if (!good) return bad_option(option, "slots=N, role=auto|listen|dial");
  }
  return LocalPort::open(options);
}

}  // namespace

PortResult open_port(std::string_view spec) {
  constexpr std::string_view kLocal = "local:";
  if (spec.starts_with(kLocal)) return open_local(spec.substr(kLocal.size()));
  return PortResult::failure(
      EINVAL,
      "a port is 'local:SOCKET-PATH' or 'ethdev:DPDK-DEVICE', not '" + std::string(spec) + "'");
}

}  // namespace mprdma::dataplane
