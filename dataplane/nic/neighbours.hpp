// Who is asked for on the wire on behalf of clients and of the CM agent, by ARP or by neighbour
// discovery, and who waits for the answer. IPv4 that lies off the subnet is the gateway's, if there
// is one; without one every address is asked for itself. IPv6 is of the link.
// A gateway may become another machine: frames are aimed at the Ethernet address that it has now,
// and one that is sent to and not heard of is asked for again.
//
// An address that does not answer is forgotten (arp.hpp): who still wants it asks again. Pure;
// called by the switch.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "base/units.hpp"
#include "dataplane/arp.hpp"
#include "wire/ethernet.hpp"

namespace mprdma::dataplane::nic {

class Neighbours {
 public:
  static constexpr uint32_t kAgent = UINT32_MAX;  // instead of a client's block
  static constexpr size_t kQuestionsMax = 1024;
  static constexpr size_t kQuestionsPerClient = 128;
  static constexpr size_t kQuestionsOfAgent = 512;  // who asks for all clients
  // Silence of a gateway in use that makes us ask where it is.
  static constexpr Duration kGatewayLook = Duration::ms(250);

  struct Question {
    uint32_t who = kAgent;  // block of a client
    wire::IpAddress ip{};
  };

  // `secret`: of the hash of addresses.
  explicit Neighbours(uint64_t secret) : arp_(secret) { questions_.reserve(kQuestionsMax); }

  // Addresses in host order; gateway 0: none.
  void configure(uint32_t ipv4, uint32_t prefix_bits, uint32_t gateway);
  [[nodiscard]] wire::IpAddress next_hop(const wire::IpAddress& ip) const;

  // The Ethernet address by which `ip` is reached, if it is known.
  [[nodiscard]] const wire::MacAddress* find(const wire::IpAddress& ip) const;
  // Where frames for `ip` go if that is the gateway, whatever the sender was told before; nullptr:
  // `ip` is on the subnet, or the gateway is not known.
  [[nodiscard]] const wire::MacAddress* gateway_of(uint32_t ip) const {
    return gateway_known_ && ((ip ^ ipv4_) & mask_) != 0 ? &gateway_mac_ : nullptr;
  }
  // For each frame: to and from the gateway's Ethernet address.
  void sent_to_gateway() { gateway_sent_ = true; }
  void heard(const unsigned char* src_mac) {
    if (gateway_known_ && std::memcmp(src_mac, gateway_mac_.data(), gateway_mac_.size()) == 0) {
      gateway_heard_ = true;
    }
  }
  // From time to time.
  void look_at_gateway(Time now);

  // The Ethernet address; else it is asked for, and `who` is among those that on_news() tells.
  // False in *waits: there is no room, and nobody will be told.
  const wire::MacAddress* ask(uint32_t who, const wire::IpAddress& ip, Time now, bool* waits);

  // Somebody says that `hop` is at `mac`. True if that is news; then tell(question) is called for
  // each question that it answers.
  template <class Tell>
  bool learn(const wire::IpAddress& hop, const wire::MacAddress& mac, bool may_add, Tell&& tell) {
    if (!arp_.learn(hop, mac, may_add)) return false;
    if (gateway_ != 0 && hop == wire::map_ipv4(gateway_)) know_gateway(mac);
    take_questions(hop, tell);
    return true;
  }
  // The same, by an advertisement (arp.hpp).
  template <class Tell>
  bool learn_advertised(const wire::IpAddress& hop, const wire::MacAddress& mac, bool overrides,
                        Tell&& tell) {
    if (!arp_.learn_advertised(hop, mac, overrides)) return false;
    take_questions(hop, tell);
    return true;
  }

  void forget_client(uint32_t block) {
    std::erase_if(questions_, [block](const Question& q) { return q.who == block; });
  }
  void restart(Time now) { arp_.restart(now); }
  [[nodiscard]] Time next_deadline() const { return arp_.next_deadline(); }

  // request(ip): is to be asked for on the wire. lost(question): nobody answers.
  template <class Request, class Lost>
  void on_deadline(Time now, Request&& request, Lost&& lost) {
    bool any = false;
    arp_.on_deadline(now, request, [&](const wire::IpAddress& hop) {
      any = true;
      take_questions(hop, lost);
    });
    if (any) arp_.forget_failed();
  }

 private:
  template <class Take>
  void take_questions(const wire::IpAddress& hop, Take&& take) {
    for (size_t i = 0; i < questions_.size();) {
      if (next_hop(questions_[i].ip) != hop) {
        ++i;
        continue;
      }
      const Question question = questions_[i];
      questions_[i] = questions_.back();
      questions_.pop_back();
      take(question);
    }
  }

  void know_gateway(const wire::MacAddress& mac) {
    gateway_mac_ = mac;
    gateway_known_ = gateway_heard_ = true;
  }

  ArpTable arp_;
  uint32_t ipv4_ = 0;
  uint32_t mask_ = UINT32_MAX;
  uint32_t gateway_ = 0;
  wire::MacAddress gateway_mac_{};
  bool gateway_known_ = false;
  // Since the last look.
  bool gateway_sent_ = false;
  bool gateway_heard_ = false;
  Time next_look_;
  std::vector<Question> questions_;  // never grows beyond its first capacity
};

}  // namespace mprdma::dataplane::nic
