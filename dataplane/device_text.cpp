#include "dataplane/device_text.hpp"

#include <cctype>

namespace mprdma::dataplane {

bool valid_mtu(uint64_t mtu) {
  return mtu == 1024 || mtu == 2048 || mtu == 4096;
}

bool valid_device_name(const std::string& name) {
  if (name.empty() || name.size() >= 64) return false;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_' && c != '-') return false;
  }
  return true;
}

}  // namespace mprdma::dataplane
