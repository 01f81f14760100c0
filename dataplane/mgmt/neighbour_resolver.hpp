// Resolves addresses on behalf of clients and of the CM agent, and records who waits for the answer
// of a neighbour (neighbours.hpp). An IPv4 address off the subnet resolves to the gateway, if there
// is one; otherwise every address is asked for directly. IPv6 addresses are link-local.
// A gateway may become another machine: frames go to the Ethernet address that it has now,
// and a gateway that gets frames but sends none is asked for again.
//
// An address that does not answer is forgotten (neighbour_table.hpp): a client that still needs it
// asks again. Pure; called by the switch.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "base/ipv4.hpp"
#include "base/units.hpp"
#include "dataplane/mgmt/neighbour_table.hpp"
#include "wire/ethernet.hpp"

namespace mprdma::dataplane {

class NeighbourResolver {
 public:
  static constexpr uint32_t kAgent = UINT32_MAX;  // instead of a client's block
  static constexpr size_t kQuestionsMax = 1024;
  static constexpr size_t kQuestionsPerClient = 128;
  static constexpr size_t kQuestionsOfAgent = 512;  // the agent asks for all clients
  // Silence of a gateway in use after which it is asked for again.
  static constexpr Duration kGatewayCheckInterval = Duration::ms(250);

  struct Question {
    uint32_t who = kAgent;  // block of a client
    wire::IpAddress ip{};
  };

  // The table of neighbours lives as long as this.
  explicit NeighbourResolver(NeighbourTable* table) : table_(*table) {
    questions_.reserve(kQuestionsMax);
  }

  // An unspecified gateway: none.
  void configure(Ipv4 ipv4, uint32_t prefix_bits, Ipv4 gateway);
  [[nodiscard]] wire::IpAddress next_hop(const wire::IpAddress& ip) const;

  // The Ethernet address by which `ip` is reached, if it is known.
  [[nodiscard]] const wire::MacAddress* find(const wire::IpAddress& ip) const;
  // The gateway's Ethernet address if frames for `ip` go there, whatever the sender was told
  // before; nullptr: `ip` is on the subnet, or the gateway is not known.
  [[nodiscard]] const wire::MacAddress* gateway_of(Ipv4 ip) const {
    return gateway_known_ && !same_subnet(ip, ipv4_, mask_) ? &gateway_mac_ : nullptr;
  }
  // Called for each frame: traffic to and from the gateway's Ethernet address.
  void sent_to_gateway() { gateway_sent_ = true; }
  void heard(const unsigned char* src_mac) {
    if (gateway_known_ && std::memcmp(src_mac, gateway_mac_.data(), gateway_mac_.size()) == 0) {
      gateway_heard_ = true;
    }
  }
  // Called at intervals: asks for a silent gateway again.
  void check_gateway(Time now);

  // The Ethernet address; nullptr: it is asked for, and on_neighbour() will tell `who`. False in
  // *waits: there is no room, and `who` will not be told.
  const wire::MacAddress* ask(uint32_t who, const wire::IpAddress& ip, Time now, bool* waits);

  // Takes the news that `hop` is at `mac` (nullptr: `hop` does not answer), and calls
  // tell(question) for each question that the news answers.
  template <class Tell>
  void on_neighbour(const wire::IpAddress& hop, const wire::MacAddress* mac, Tell&& tell) {
    if (mac == nullptr) any_failed_ = true;
    if (mac != nullptr && !gateway_.unspecified() && hop == wire::map_ipv4(gateway_)) {
      know_gateway(*mac);
    }
    for (size_t i = 0; i < questions_.size();) {
      if (next_hop(questions_[i].ip) != hop) {
        ++i;
        continue;
      }
      const Question question = questions_[i];
      questions_[i] = questions_.back();
      questions_.pop_back();
      tell(question);
    }
  }
  // Removes the neighbours that did not answer from the table. Called after its deadline.
  void forget_failed() {
    if (any_failed_) table_.forget_failed();
    any_failed_ = false;
  }

  void forget_client(uint32_t block) {
    std::erase_if(questions_, [block](const Question& q) { return q.who == block; });
  }

 private:
  void know_gateway(const wire::MacAddress& mac) {
    gateway_mac_ = mac;
    gateway_known_ = gateway_heard_ = true;
  }

  NeighbourTable& table_;
  Ipv4 ipv4_;
  uint32_t mask_ = UINT32_MAX;
  Ipv4 gateway_;
  wire::MacAddress gateway_mac_{};
  bool gateway_known_ = false;
  // Since the last check.
  bool gateway_sent_ = false;
  bool gateway_heard_ = false;
  Time next_check_;
  bool any_failed_ = false;
  std::vector<Question> questions_;  // never grows beyond its first capacity
};

}  // namespace mprdma::dataplane
