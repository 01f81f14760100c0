// What an acknowledgement says of other packets than its own (wire/mp_ack_map.hpp).
//
// A packet of which only a map has told is not sent again. Its room in the window waits for its own
// acknowledgement, which tells on which path there is room, until that one is lost: as soon as the
// packet would be, were it not for the map. If it comes all the same, it is heard as one that is
// late, and the verdict was wrong.
#include <bit>

#include "transport/stream/stream_sender.hpp"

namespace mprdma::transport {

// Of an acknowledgement without a NACK code. Requires that its own packet is in the scoreboard, and
// that snd_una has moved.
void StreamSender::take_more(const wire::Packet& ack) {
  constexpr uint8_t kNeedless = wire::kMpAckReTx | wire::kMpAckDuplicate;
  if ((ack.mp_ack.flags & kNeedless) == kNeedless) ++counters_->copies_needless;
  if (ack.opcode != wire::Opcode::kMpAckMap || !recovery_.exact()) return;
  const Psn sack = ack.mp_ack.sack;
  const Psn first = sack - wire::MpAckMap::kPackets;
  for (uint64_t news = ack.mp_ack_map.received & board_.unheard_before(sack); news != 0;
       news &= news - 1) {
    const Psn psn = first + static_cast<uint32_t>(std::countr_zero(news));
    if (!board_.lost(psn)) {
      board_.tell(psn);
    } else if (!board_.held(psn)) {
      board_.give_up(psn);  // its room is in use again
      ++counters_->acks_lost_told;
    }
  }
}

// A packet that has arrived, as a map told, would be lost by now: its acknowledgement is.
void StreamSender::give_up_ack(Psn psn, LossCause cause) {
  board_.give_up(psn);
  ++counters_->acks_lost_told;
  if (params_.own_ack_credit && cause != LossCause::kTimeout) gate_.note_orphans(1);
  // The receiver has the head of line and does not advance: it was not ready.
  if (psn == una() && !paused()) ask_head();
}

}  // namespace mprdma::transport
