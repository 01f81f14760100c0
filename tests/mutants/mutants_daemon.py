"""Small breakages of mprdmad's switch, each of which its unit tests must find.

Fields: see mutants.py; files are of dataplane/daemon/.
"""

from mutants import maker

_mutant = maker("daemon-", "daemon")

MUTANTS = [
    # ---- Steering
    _mutant(
        "own-address-goes-to-the-wire",
        "switch_client.cpp",
        "} else if (is_ours(copy, found, true)) {\n    Station* to",
        "} else if (wire_ == nullptr && is_ours(copy, found, true)) {\n    Station* to",
        "processes of one host do not reach each other once there is a wire",
    ),
    _mutant(
        "frames-for-others-are-taken",
        "switch_wire.cpp",
        "  if (!to_us) return drop(*wire_, &StationCounters::nic_drop_not_ours);\n",
        "",
        "a switch that floods makes us execute what is for another host",
    ),
    _mutant(
        "own-frames-come-back",
        "switch_wire.cpp",
        "  if (is_ours(copy, found, false)) "
        "return drop(*wire_, &StationCounters::nic_drop_forged);\n",
        "",
        "a loop of the network delivers twice, and anybody speaks in our name",
    ),
    _mutant(
        "sender-of-a-group-hears-itself",
        "switch.cpp",
        "    if (client == nullptr || client.get() == &from) continue;\n",
        "    if (client == nullptr) continue;\n",
        "the engine has made that copy already",
    ),
    _mutant(
        "answers-go-where-questions-go",
        "switch_management.cpp",
        "pair.response ? Qpn(static_cast<uint32_t>(pair.transaction & wire::kQpnMask))\n"
        "                                : pair.info.receiver_qpn;",
        "pair.info.receiver_qpn;",
        "no pair of queue pairs ever agrees on its mode",
    ),
    _mutant(
        "broken-management-is-believed",
        "switch_management.cpp",
        "decoded, wire_can_corrupt_) !=",
        "decoded, false) !=",
        "a flipped bit makes a connection",
    ),
    # ---- Policing
    _mutant(
        "any-ethernet-address",
        "switch_client.cpp",
        "std::memcmp(copy.bytes.data() + 6, config_.mac.data(), config_.mac.size()) != 0 ||\n"
        "      !is_ours(copy, found, false)",
        "!is_ours(copy, found, false)",
        "a process moves another host's address in every switch of the network",
    ),
    _mutant(
        "any-ip-address",
        "switch_client.cpp",
        "config_.mac.size()) != 0 ||\n      !is_ours(copy, found, false)) {",
        "config_.mac.size()) != 0) {",
        "a process speaks for another host",
    ),
    _mutant(
        "any-queue-pair-of-a-datagram",
        "switch_client.cpp",
        "(client::block_of(packet.deth.src_qpn) != block || packet.deth.src_qpn == Qpn(0))",
        "packet.deth.src_qpn == Qpn(0)",
        "a process sends datagrams as another one",
    ),
    _mutant(
        "clients-do-management",
        "switch_client.cpp",
        "  if ((packet.dest_qpn == wire::kGeneralServicesQpn) != from_services) return false;\n",
        "",
        "a process ends the connections of others",
    ),
    _mutant(
        "agreement-in-anothers-name",
        "switch_client.cpp",
        "(mad.response && mad.status != 0) || client::is_in_block(mad.info.sender_qpn, block);",
        "true;",
        "a process chooses the mode of somebody else's connection",
    ),
    _mutant(
        "connection-in-anothers-name",
        "server.cpp",
        "names_queue_pair(in) && !client::is_in_block(Qpn(in.params.qpn), client.block)",
        "Qpn(in.params.qpn) > wire::kMulticastQpn",
        "a process ends a connection of somebody else: to the peer it is a stale one",
    ),
    _mutant(
        "accepted-in-anothers-name",
        "server.cpp",
        "(command.op == MPRDMA_ABI_CM_CONNECT || command.op == MPRDMA_ABI_CM_ACCEPT)",
        "command.op == MPRDMA_ABI_CM_CONNECT",
        "a process has the peer connect to somebody else's queue pair",
    ),
    _mutant(
        "anybodys-frames-are-brought-forward",
        "server.cpp",
        "reply.error == 0 && had_connection && ends_connection(in)",
        "ends_connection(in)",
        "a process that ends nothing has its ring emptied before those of others",
    ),
    _mutant(
        "headers-as-they-are-now",
        "switch.cpp",
        "std::memcpy(out->payload - header_bytes, copy.bytes.data(), header_bytes);",
        "std::memcpy(out->payload - header_bytes, frame.data, header_bytes);",
        "a client changes what was checked before it goes out",
    ),
    _mutant(
        "kernel-speaks-rdma",
        "switch_kernel.cpp",
        "  if (is_roce_from(copy, config_.ipv4, neighbours_.link_local())) {\n",
        "  if (false) {\n",
        "any process writes packets of RDMA through a UDP socket",
    ),
    _mutant(
        "kernel-gets-our-address",
        "switch_kernel.cpp",
        "  if (tap_ == nullptr || ours_alone) return",
        "  if (tap_ == nullptr) return",
        "a kernel that forwards sends it round",
    ),
    # ---- Clean-up
    _mutant(
        "questions-of-the-gone",
        "switch.cpp",
        "  resolver_.forget_client(block);\n",
        "",
        "who gets the block next hears answers that it did not ask for",
    ),
]
