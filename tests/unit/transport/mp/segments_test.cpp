// Segments longer than the path MTU: a host asks sends_long() before it reserves a frame for one.
// And what a host learns of the responses that leave, by take_changes().
#include <gtest/gtest.h>

#include "tests/support/endpoint_pair.hpp"
#include "tests/support/print.hpp"

namespace mprdma::transport {
namespace {

constexpr uint64_t kBase = Endpoint::kBase;
constexpr uint32_t kSegment = 4096;

PairOptions with_segments() {
  PairOptions options;
  options.attributes.path_mtu = 1024;
  options.attributes.send_segment = options.attributes.take_segment = kSegment;
  options.attributes.max_rd_atomic = options.attributes.max_dest_rd_atomic = 4;
  return options;
}

TEST(Segments, SendsLongWhileARequestThatIsLongerThanThePathMtuIsInTheQueue) {
  EndpointPair pair(with_segments());
  EXPECT_FALSE(pair.a.qp->sends_long());
  pair.a.post(WorkOpcode::kWrite, kBase, 1024, kBase + 8192);
  EXPECT_FALSE(pair.a.qp->sends_long()) << "it fits a packet of the path MTU";
  pair.a.post(WorkOpcode::kWrite, kBase, 1025, kBase + 8192);
  pair.a.post(WorkOpcode::kWrite, kBase, 10, kBase + 8192);
  EXPECT_TRUE(pair.a.qp->sends_long());
  EXPECT_EQ(pair.a.send().size(), 3u);  // lost
  EXPECT_TRUE(pair.a.qp->sends_long()) << "it may have to be sent again";
  pair.run();
  EXPECT_EQ(pair.a.take_completions().size(), 3u);
  EXPECT_FALSE(pair.a.qp->sends_long());
  EXPECT_FALSE(pair.b.qp->sends_long());
}

TEST(Segments, SendsLongWhileReadDataIsOutstanding) {
  EndpointPair pair(with_segments());
  pair.a.post(WorkOpcode::kRead, kBase + 8192, 5000, kBase);
  for (const Parcel& parcel : pair.a.send()) pair.b.receive(parcel);
  EXPECT_TRUE(pair.b.qp->sends_long());
  const std::vector<Parcel> data = pair.b.send();
  ASSERT_EQ(data.size(), 2u);
  EXPECT_EQ(data[0].payload.size(), kSegment);
  EXPECT_TRUE(pair.b.qp->sends_long()) << "it may have to be sent again";
  for (const Parcel& parcel : data) {
    if (const auto ack = pair.a.receive(parcel)) pair.b.receive(*ack);
  }
  EXPECT_FALSE(pair.b.qp->sends_long());
}

TEST(Segments, NoPacketIsLongerThanThePathMtuWhileSendsLongDenies) {
  PairOptions options = with_segments();
  options.attributes.send_segment = 0;
  EndpointPair pair(options);
  pair.a.post(WorkOpcode::kWrite, kBase, 5000, kBase + 8192);
  EXPECT_FALSE(pair.a.qp->sends_long());
  // Requests are sent in the segments of the time when they begin.
  pair.a.attributes.send_segment = kSegment;
  pair.a.qp->set_attributes(pair.a.attributes);
  const bool sends_long = pair.a.qp->sends_long();
  for (const Parcel& parcel : pair.a.send()) {
    EXPECT_TRUE(sends_long || parcel.payload.size() <= 1024u);
  }
  pair.run();
  EXPECT_FALSE(pair.a.qp->sends_long());
}

// The host sets its timer when it learns that the deadline has changed; a lost response is sent
// again by that timer.
TEST(Responses, TheHostLearnsOfTheDeadlineOfAResponseThatLeaves) {
  for (const int polls_before : {0, 1}) {
    EndpointPair pair(with_segments());
    pair.a.post(WorkOpcode::kRead, kBase + 8192, 100, kBase);
    TxPacket out;
    // Requests and responses take turns.
    for (int i = 0; i < polls_before; ++i) EXPECT_FALSE(pair.b.qp->poll_packet(pair.b.now, out));
    for (const Parcel& parcel : pair.a.send()) pair.b.receive(parcel);
    pair.b.qp->take_changes();
    const Time before = pair.b.qp->next_deadline();
    ASSERT_TRUE(pair.b.qp->poll_packet(pair.b.now, out));
    ASSERT_LT(pair.b.qp->next_deadline(), before);
    EXPECT_NE(pair.b.qp->take_changes() & kDeadlineChanged, 0) << polls_before;
  }
}

}  // namespace
}  // namespace mprdma::transport
