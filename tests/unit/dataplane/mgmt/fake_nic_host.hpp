// A host of the NIC's part for tests: it keeps what is sent, counted and told.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "dataplane/mgmt/nic_host.hpp"

namespace mprdma::dataplane::testing {

using Bytes = std::vector<unsigned char>;

struct FakeNicHost final : NicHost {
  bool send(std::span<const unsigned char> frame) override {
    if (full) return false;
    frames.emplace_back(frame.begin(), frame.end());
    return true;
  }
  [[nodiscard]] bool with_icrc() const override { return true; }
  void count(NicCount what) override { ++counts[what]; }
  void on_neighbour(const wire::IpAddress& ip, const wire::MacAddress* mac) override {
    neighbours[ip] = mac != nullptr ? *mac : wire::MacAddress{};
  }
  void on_cm_mad(std::span<const unsigned char, wire::kMadBytes> mad, const wire::FrameAddress&,
                 bool) override {
    cm_mads.emplace_back(mad.begin(), mad.end());
  }
  void on_pair_mad(const wire::PairMad& mad) override { pair_mads.push_back(mad); }

  std::vector<Bytes> take() { return std::exchange(frames, {}); }

  bool full = false;
  std::vector<Bytes> frames;
  std::map<NicCount, int> counts;
  std::vector<Bytes> cm_mads;
  std::vector<wire::PairMad> pair_mads;
  std::map<wire::IpAddress, wire::MacAddress> neighbours;  // no MAC: lost
};

}  // namespace mprdma::dataplane::testing
