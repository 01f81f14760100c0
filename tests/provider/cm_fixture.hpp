// Ids, channels and connections through the distribution's librdmacm. Behind the mini-ucma stands
// the fake engine's agent (fake_cm.hpp): ids of this process, at 10.73.0.1, reach each other.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "tests/provider/fake_engine.hpp"

namespace mprdma::provider_test {

inline sockaddr_in ip(const char* text, uint16_t port = 0) {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_port = htons(port);
  inet_pton(AF_INET, text, &in.sin_addr);
  return in;
}

inline sockaddr* generic(sockaddr_in* in) {
  return reinterpret_cast<sockaddr*>(in);
}

class Cm : public ::testing::Test {
 protected:
  static constexpr uint64_t kFeatures = 0x1fffffu & ~MPRDMA_ABI_FEATURE_RELAXED_ALWAYS;
  static constexpr const char* kOwn = "10.73.0.1";

  void SetUp() override {
    fake_engine_features(kFeatures);
    channel_ = rdma_create_event_channel();
    ASSERT_NE(channel_, nullptr) << strerror(errno);
  }
  void TearDown() override {
    for (rdma_cm_id* id : ids_) {
      if (id->qp != nullptr) rdma_destroy_qp(id);
      EXPECT_EQ(rdma_destroy_id(id), 0);
    }
    if (channel_ != nullptr) rdma_destroy_event_channel(channel_);
    EXPECT_EQ(fake_engine_cm_ids(), 0u) << "ids were left at the agent";
  }

  rdma_cm_id* make(rdma_port_space space = RDMA_PS_TCP, void* context = nullptr) {
    rdma_cm_id* id = nullptr;
    EXPECT_EQ(rdma_create_id(channel_, &id, context, space), 0) << strerror(errno);
    if (id != nullptr) ids_.push_back(id);
    return id;
  }
  int destroy(rdma_cm_id* id) {
    std::erase(ids_, id);
    if (id->qp != nullptr) rdma_destroy_qp(id);
    return rdma_destroy_id(id);
  }

  static bool readable(const rdma_event_channel* channel, int timeout_ms = 0) {
    pollfd fd{channel->fd, POLLIN, 0};
    return poll(&fd, 1, timeout_ms) == 1 && (fd.revents & POLLIN) != 0;
  }

  // The next event, which must be there; the caller acknowledges it.
  rdma_cm_event* next(rdma_cm_event_type type) {
    rdma_cm_event* event = nullptr;
    if (!readable(channel_)) {
      ADD_FAILURE() << "no event, expected " << rdma_event_str(type);
      return nullptr;
    }
    EXPECT_EQ(rdma_get_cm_event(channel_, &event), 0);
    EXPECT_STREQ(rdma_event_str(event->event), rdma_event_str(type)) << "status " << event->status;
    return event;
  }
  void expect(rdma_cm_event_type type, int status = 0) {
    rdma_cm_event* event = next(type);
    ASSERT_NE(event, nullptr);
    EXPECT_EQ(event->status, status);
    rdma_ack_cm_event(event);
  }
  void expect_silence() { EXPECT_FALSE(readable(channel_)); }

  rdma_cm_id* listen(rdma_port_space space = RDMA_PS_TCP, const char* address = "0.0.0.0") {
    rdma_cm_id* id = make(space);
    sockaddr_in local = ip(address);
    EXPECT_EQ(rdma_bind_addr(id, generic(&local)), 0) << strerror(errno);
    EXPECT_EQ(rdma_listen(id, 8), 0) << strerror(errno);
    EXPECT_NE(rdma_get_src_port(id), 0);
    return id;
  }

  // An id whose route to the listener's port is resolved.
  rdma_cm_id* resolved(uint16_t port, rdma_port_space space = RDMA_PS_TCP,
                       void* context = nullptr) {
    rdma_cm_id* id = make(space, context);
    sockaddr_in remote = ip(kOwn, port);
    EXPECT_EQ(rdma_resolve_addr(id, nullptr, generic(&remote), 1000), 0) << strerror(errno);
    expect(RDMA_CM_EVENT_ADDR_RESOLVED);
    EXPECT_EQ(rdma_resolve_route(id, 1000), 0) << strerror(errno);
    expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
    return id;
  }

  static void give_qp(rdma_cm_id* id) {
    ibv_qp_init_attr attr{};
    attr.cap = {8, 8, 1, 1, 0};
    attr.qp_type = id->ps == RDMA_PS_TCP ? IBV_QPT_RC : IBV_QPT_UD;
    ASSERT_EQ(rdma_create_qp(id, nullptr, &attr), 0) << strerror(errno);
  }

  static rdma_conn_param params(std::string_view data = {}) {
    rdma_conn_param param{};
    param.private_data = data.data();
    param.private_data_len = static_cast<uint8_t>(data.size());
    param.responder_resources = 3;
    param.initiator_depth = 5;
    param.retry_count = 6;
    param.rnr_retry_count = 4;
    return param;
  }

  static std::string data_of(const rdma_cm_event* event, bool datagram = false) {
    const auto& conn = event->param.conn;
    const auto& ud = event->param.ud;
    return datagram
               ? std::string(static_cast<const char*>(ud.private_data), ud.private_data_len)
               : std::string(static_cast<const char*>(conn.private_data), conn.private_data_len);
  }

  // The request that came to a listener; its id belongs to the fixture.
  rdma_cm_id* request() {
    rdma_cm_event* event = next(RDMA_CM_EVENT_CONNECT_REQUEST);
    if (event == nullptr) return nullptr;
    rdma_cm_id* id = event->id;
    ids_.push_back(id);
    rdma_ack_cm_event(event);
    return id;
  }

  struct Connected {
    rdma_cm_id* active;
    rdma_cm_id* passive;
  };
  Connected connect(const rdma_cm_id* listener) {
    Connected pair{resolved(ntohs(rdma_get_src_port(const_cast<rdma_cm_id*>(listener)))), nullptr};
    give_qp(pair.active);
    rdma_conn_param param = params();
    EXPECT_EQ(rdma_connect(pair.active, &param), 0);
    pair.passive = request();
    give_qp(pair.passive);
    EXPECT_EQ(rdma_accept(pair.passive, &param), 0);
    expect(RDMA_CM_EVENT_ESTABLISHED);  // the active side's, made of the response
    expect(RDMA_CM_EVENT_ESTABLISHED);
    return pair;
  }

  rdma_event_channel* channel_ = nullptr;
  std::vector<rdma_cm_id*> ids_;
};

}  // namespace mprdma::provider_test
