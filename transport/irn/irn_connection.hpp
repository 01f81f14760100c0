// RC as IRN has it (Mittal et al., "Revisiting Network Support for RDMA"): the packets of the
// standard on one path, acknowledged selectively, as many in flight as a bandwidth-delay product
// (BDP-FC). A Connection as qp_core.hpp describes it.
//
// Its two streams in each direction are those of the mode mp; this class says in the standard's
// packets what they say in the extended ones. The four problems that IRN has with packets out of
// order:
//   - the first packet of a message says where it goes, the others do not;
//   - packet and receive are matched by counting;
//   - the last packet ends the message: packets wait for their turn in their frames
//     (PlacementPolicy::kOrdered), and what they do not say follows from those before
//     (Responder::complete, Requester::complete);
//   - nothing acknowledges READ data: responses are a stream of their own, which has PSNs of its
//     own and is acknowledged like requests.
#pragma once

#include "transport/irn/send_clock.hpp"
#include "transport/mp/mp_connection.hpp"

namespace mprdma::transport {

class IrnConnection : public MpConnection {
 public:
  explicit IrnConnection(QpCore& core)
      : MpConnection(core),
        core_(core),
        requests_(core.config.params.window_slots),
        responses_(core.config.params.window_slots) {}

  void reset(RxActions& actions);
  RxVerdict on_packet(Time now, const wire::Packet& packet, FrameHandle frame, RxActions& actions);
  bool poll_packet(Time now, TxPacket& out);

 private:
  RxVerdict on_ack(Time now, const wire::Packet& ack, FrameHandle frame, RxActions& actions);

  QpCore& core_;
  SendClock requests_;
  SendClock responses_;
};

}  // namespace mprdma::transport
