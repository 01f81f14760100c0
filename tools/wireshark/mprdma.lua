-- Wireshark dissector for the extended mode of mprdma (opcodes 0xc0..0xd9 of RoCEv2), and for the
-- management datagrams by which two peers agree on the mode of a pair of queue pairs.
--
--   tshark -X lua_script:tools/wireshark/mprdma.lua -r FILE
--   wireshark -X lua_script:tools/wireshark/mprdma.lua FILE
--   or copy this file to the folder that Wireshark calls "Personal Lua Plugins" (Help, About)
--
-- UDP port 4791 stays with Wireshark's own InfiniBand dissector, which shows the BTH of every
-- packet and all of a standard one. What this file adds is a tree "MP-RDMA" below it. The format
-- is docs/wire-format.md, section by section; a test holds this file against the encoder.
--
-- Display filters: mprdma, mprdma.data.retx == 1, mprdma.ack.nack_code != 0, ...

local mprdma = Proto("mprdma", "MP-RDMA")

-- ---- Section 5: opcodes. The low five bits are those of RC.

local MP_FIRST, MP_LAST, MP_READ_REQUEST, MP_ACK = 0xc0, 0xdf, 0xcc, 0xd1
local MP_ACK_MAP = 0xd9

local OPCODES = {
  [0xc0] = "MP_SEND_FIRST",
  [0xc1] = "MP_SEND_MIDDLE",
  [0xc2] = "MP_SEND_LAST",
  [0xc3] = "MP_SEND_LAST_IMM",
  [0xc4] = "MP_SEND_ONLY",
  [0xc5] = "MP_SEND_ONLY_IMM",
  [0xc6] = "MP_WRITE_FIRST",
  [0xc7] = "MP_WRITE_MIDDLE",
  [0xc8] = "MP_WRITE_LAST",
  [0xc9] = "MP_WRITE_LAST_IMM",
  [0xca] = "MP_WRITE_ONLY",
  [0xcb] = "MP_WRITE_ONLY_IMM",
  [0xcc] = "MP_READ_REQUEST",
  [0xcd] = "MP_READ_RESPONSE_FIRST",
  [0xce] = "MP_READ_RESPONSE_MIDDLE",
  [0xcf] = "MP_READ_RESPONSE_LAST",
  [0xd0] = "MP_READ_RESPONSE_ONLY",
  [0xd1] = "MP_ACK",
  [0xd2] = "MP_ATOMIC_ACK",
  [0xd3] = "MP_COMPARE_SWAP",
  [0xd4] = "MP_FETCH_ADD",
  [0xd6] = "MP_SEND_LAST_INVALIDATE",
  [0xd7] = "MP_SEND_ONLY_INVALIDATE",
  [0xd8] = "MP_RESPONSE_ERROR",
  [0xd9] = "MP_ACK_MAP",
}

local NACK_CODES = {
  [0] = "NONE",
  [1] = "WINDOW_OVERFLOW",
  [2] = "BUDGET_EXHAUSTED",
  [3] = "SYNC_TOO_EARLY",
  [4] = "RNR",
  [5] = "SEQUENCE_ERROR",
  [6] = "INVALID_REQUEST",
  [7] = "REMOTE_ACCESS_ERROR",
  [8] = "REMOTE_OPERATIONAL_ERROR",
}
local NACK_RNR = 4

-- Section 9.
local PHASES = { [0] = "undecided", [1] = "tentative", [2] = "fixed" }
local MODES = {
  [0] = "none",
  [1] = "mp",
  [2] = "mp-paper",
  [3] = "mp-single",
  [4] = "irn",
  [5] = "roce",
}

local STREAMS = { [0] = "request", [1] = "response" }
local MP_VERSION = 1
local DELAY_MAX = 255 -- this many microseconds, or more
local SEGMENT_UNIT = 256 -- bytes

-- ---- Fields

local NO_YES = { [0] = "no", [1] = "yes" }

local f = {
  opcode = ProtoField.uint8("mprdma.opcode", "Opcode", base.HEX, OPCODES),
  payload = ProtoField.bytes("mprdma.payload", "Payload"),
  payload_len = ProtoField.uint32("mprdma.payload_len", "Payload length", base.DEC),
  pad = ProtoField.bytes("mprdma.pad", "Pad"),
  icrc = ProtoField.uint32("mprdma.icrc", "ICRC", base.HEX),

  data_version = ProtoField.uint8("mprdma.data.version", "Version", base.DEC, nil, 0xf0),
  data_maps = ProtoField.uint8("mprdma.data.maps", "Takes maps", base.DEC, NO_YES, 0x08),
  data_probe = ProtoField.uint8("mprdma.data.probe", "Tail probe", base.DEC, NO_YES, 0x04),
  data_sync = ProtoField.uint8("mprdma.data.sync", "Synchronise", base.DEC, NO_YES, 0x02),
  data_retx = ProtoField.uint8("mprdma.data.retx", "ReTx", base.DEC, NO_YES, 0x01),
  data_timestamp = ProtoField.uint32("mprdma.data.timestamp", "Timestamp (ns)", base.DEC),
  data_message = ProtoField.uint24("mprdma.data.message_number", "Message number", base.DEC),
  data_offset = ProtoField.uint32("mprdma.data.offset", "Offset", base.DEC),
  data_segment = ProtoField.uint32("mprdma.data.segment", "Segment of the response", base.DEC),

  ack_version = ProtoField.uint8("mprdma.ack.version", "Version", base.DEC, nil, 0xf0),
  ack_aack = ProtoField.uint24("mprdma.ack.aack", "AACK (PSN of the BTH)", base.DEC),
  ack_duplicate = ProtoField.uint8("mprdma.ack.duplicate", "Duplicate", base.DEC, NO_YES, 64),
  ack_held = ProtoField.uint8("mprdma.ack.held", "Held", base.DEC, NO_YES, 0x20),
  ack_sack_valid = ProtoField.uint8("mprdma.ack.sack_valid", "SACK valid", base.DEC, NO_YES, 0x10),
  ack_ordered = ProtoField.uint8("mprdma.ack.ordered", "Ordered placement", base.DEC, NO_YES, 0x08),
  ack_retx = ProtoField.uint8("mprdma.ack.retx", "ReTx", base.DEC, NO_YES, 0x04),
  ack_ece = ProtoField.uint8("mprdma.ack.ece", "ECE", base.DEC, NO_YES, 0x02),
  ack_stream = ProtoField.uint8("mprdma.ack.stream", "Stream", base.DEC, STREAMS, 0x01),
  ack_nack_code = ProtoField.uint8("mprdma.ack.nack_code", "NACK code", base.DEC, NACK_CODES),
  ack_detail = ProtoField.uint8("mprdma.ack.detail", "Detail", base.DEC),
  ack_timestamp = ProtoField.uint32("mprdma.ack.echoed_timestamp", "Echoed timestamp", base.DEC),
  ack_sack = ProtoField.uint24("mprdma.ack.sack", "SACK PSN", base.DEC),
  ack_run = ProtoField.uint8("mprdma.ack.run", "Run: packets before SACK", base.DEC),
  ack_msn = ProtoField.uint24("mprdma.ack.msn", "MSN", base.DEC),
  ack_delay = ProtoField.uint8("mprdma.ack.delay", "Delay (us)", base.DEC),
  ack_map = ProtoField.uint64("mprdma.ack.map", "Map: SACK - 1 first", base.HEX),

  pair_response = ProtoField.uint8("mprdma.pair.response", "Response", base.DEC, NO_YES, 0x80),
  pair_status = ProtoField.uint16("mprdma.pair.status", "Status", base.HEX),
  pair_transaction = ProtoField.uint64("mprdma.pair.transaction", "Transaction", base.HEX),
  pair_version = ProtoField.uint8("mprdma.pair.version", "Wire version", base.DEC),
  pair_phase = ProtoField.uint8("mprdma.pair.phase", "Phase", base.DEC, PHASES, 0xc0),
  pair_ordered = ProtoField.uint8("mprdma.pair.ordered", "Ordered placement", base.DEC, NO_YES, 1),
  pair_pinned = ProtoField.uint8("mprdma.pair.pinned", "Pinned mode", base.DEC, MODES),
  pair_mode = ProtoField.uint8("mprdma.pair.mode", "Mode", base.DEC, MODES),
  pair_abilities = ProtoField.uint32("mprdma.pair.abilities", "Abilities", base.HEX),
  pair_slots = ProtoField.uint16("mprdma.pair.window_slots", "Window L (slots)", base.DEC),
  pair_segment = ProtoField.uint32("mprdma.pair.segment", "Longest segment (bytes)", base.DEC),
  pair_runs = ProtoField.uint8("mprdma.pair.takes_runs", "Takes runs", base.DEC, NO_YES, 0x01),
  pair_sender = ProtoField.uint24("mprdma.pair.sender_qpn", "Sender's queue pair", base.HEX),
  pair_receiver = ProtoField.uint24("mprdma.pair.receiver_qpn", "Receiver's queue pair", base.HEX),

  reth_va = ProtoField.uint64("mprdma.reth.va", "Virtual address", base.HEX),
  reth_rkey = ProtoField.uint32("mprdma.reth.rkey", "Remote key", base.HEX),
  reth_dma_len = ProtoField.uint32("mprdma.reth.dma_len", "DMA length", base.DEC),
  atomic_swap_add = ProtoField.uint64("mprdma.atomic.swap_add", "Swap or add data", base.HEX),
  atomic_compare = ProtoField.uint64("mprdma.atomic.compare", "Compare data", base.HEX),
  atomic_original = ProtoField.uint64("mprdma.atomic.original", "Original remote data", base.HEX),
  aeth_syndrome = ProtoField.uint8("mprdma.aeth.syndrome", "Syndrome", base.HEX),
  aeth_msn = ProtoField.uint24("mprdma.aeth.msn", "MSN", base.DEC),
  immdt = ProtoField.bytes("mprdma.immdt", "Immediate data"),
  ieth_rkey = ProtoField.uint32("mprdma.ieth.rkey", "Key to invalidate", base.HEX),
}
mprdma.fields = f

local function malformed(name, text)
  return ProtoExpert.new(name, text, expert.group.MALFORMED, expert.severity.ERROR)
end

local function note(name, text)
  return ProtoExpert.new(name, text, expert.group.SEQUENCE, expert.severity.NOTE)
end

local e_truncated = malformed("mprdma.truncated", "Packet ends inside its headers")
local e_version = malformed("mprdma.bad_version", "Version of the extension is not 1")
local e_opcode = malformed("mprdma.bad_opcode", "Opcode is not in use")
local e_nack = note("mprdma.nack", "NACK")
local e_retx = note("mprdma.retransmission", "Retransmission")
mprdma.experts = { e_truncated, e_version, e_opcode, e_nack, e_retx }

-- ---- Headers: each takes the bytes, where it starts and the tree, and adds its fields.

-- The first four bits of either extension.
local function mp_version(tvb, at, tree, field)
  local version = tree:add(field, tvb(at, 1))
  if tvb(at, 1):bitfield(0, 4) ~= MP_VERSION then
    version:add_proto_expert_info(e_version)
  end
end

local function mp_data(tvb, at, tree, info)
  local t = tree:add(tvb(at, 16), "mp data extension")
  mp_version(tvb, at, t, f.data_version)
  t:add(f.data_maps, tvb(at + 1, 1))
  t:add(f.data_probe, tvb(at + 1, 1))
  t:add(f.data_sync, tvb(at + 1, 1))
  local retx = t:add(f.data_retx, tvb(at + 1, 1))
  t:add(f.data_timestamp, tvb(at + 4, 4))
  t:add(f.data_message, tvb(at + 8, 3))
  info:append(" Msg=" .. tvb(at + 8, 3):uint())
  local offset = tvb(at + 12, 4):uint()
  if tvb(0, 1):uint() ~= MP_READ_REQUEST then
    t:add(f.data_offset, tvb(at + 12, 4))
    info:append(" Off=" .. offset)
  else
    local segment = t:add(f.data_segment, tvb(at + 12, 4))
    if offset == 0 then
      segment:append_text(" (path MTU)")
    else
      info:append(" Seg=" .. offset)
    end
  end
  if tvb(at + 1, 1):bitfield(5) == 1 then
    info:append(" [probe]")
  end
  if tvb(at + 1, 1):bitfield(6) == 1 then
    info:append(" [sync]")
  end
  if tvb(at + 1, 1):bitfield(7) == 1 then
    info:append(" [ReTx]")
    retx:add_proto_expert_info(e_retx)
  end
end

local function mp_ack(tvb, at, tree, info)
  local t = tree:add(tvb(at, 16), "mp acknowledgement extension")
  mp_version(tvb, at, t, f.ack_version)
  t:add(f.ack_aack, tvb(9, 3))
  local flags = { "duplicate", "held", "sack_valid", "ordered", "retx", "ece", "stream" }
  for _, flag in ipairs(flags) do
    t:add(f["ack_" .. flag], tvb(at + 1, 1))
  end
  local code = tvb(at + 2, 1):uint()
  local nack = t:add(f.ack_nack_code, tvb(at + 2, 1))
  local detail = t:add(f.ack_detail, tvb(at + 3, 1))
  if code == NACK_RNR then
    detail:append_text(" (RNR timer code)")
  end
  t:add(f.ack_timestamp, tvb(at + 4, 4))
  local sack = t:add(f.ack_sack, tvb(at + 8, 3))
  if tvb(at + 1, 1):bitfield(3) == 0 then
    sack:append_text(" (not valid)")
  end
  t:add(f.ack_run, tvb(at + 11, 1))
  t:add(f.ack_msn, tvb(at + 12, 3))
  local delay = t:add(f.ack_delay, tvb(at + 15, 1))
  if tvb(at + 15, 1):uint() == DELAY_MAX then
    delay:append_text(" (or longer)")
  end
  info:append(" " .. STREAMS[tvb(at + 1, 1):bitfield(7)] .. " AACK=" .. tvb(9, 3):uint())
  info:append(" SACK=" .. tvb(at + 8, 3):uint())
  local run = tvb(at + 11, 1):uint()
  if run ~= 0 then
    info:append(" Run=" .. run)
  end
  if code ~= 0 then
    nack:add_proto_expert_info(e_nack)
    info:append(" NACK " .. (NACK_CODES[code] or code))
  end
end

local function mp_ack_map(tvb, at, tree, info)
  tree:add(f.ack_map, tvb(at, 8))
  info:append(" Map=" .. tostring(tvb(at, 8):uint64():tohex(16)))
end

local function reth(tvb, at, tree)
  local t = tree:add(tvb(at, 16), "RETH")
  t:add(f.reth_va, tvb(at, 8))
  t:add(f.reth_rkey, tvb(at + 8, 4))
  t:add(f.reth_dma_len, tvb(at + 12, 4))
end

local function atomic_eth(tvb, at, tree)
  local t = tree:add(tvb(at, 28), "AtomicETH")
  t:add(f.reth_va, tvb(at, 8))
  t:add(f.reth_rkey, tvb(at + 8, 4))
  t:add(f.atomic_swap_add, tvb(at + 12, 8))
  t:add(f.atomic_compare, tvb(at + 20, 8))
end

local function aeth(tvb, at, tree)
  local t = tree:add(tvb(at, 4), "AETH")
  t:add(f.aeth_syndrome, tvb(at, 1))
  t:add(f.aeth_msn, tvb(at + 1, 3))
end

local function atomic_ack_eth(tvb, at, tree)
  tree:add(f.atomic_original, tvb(at, 8))
end

local function immdt(tvb, at, tree)
  tree:add(f.immdt, tvb(at, 4))
end

local function ieth(tvb, at, tree)
  tree:add(f.ieth_rkey, tvb(at, 4))
end

local SIZES = {
  [mp_data] = 16,
  [mp_ack] = 16,
  [mp_ack_map] = 8,
  [reth] = 16,
  [atomic_eth] = 28,
  [aeth] = 4,
  [atomic_ack_eth] = 8,
  [immdt] = 4,
  [ieth] = 4,
}

-- In the order of section 3: data extension, RETH, AtomicETH, AETH, AtomicAckETH, ImmDt, IETH.
local function headers_of(opcode)
  if opcode == MP_ACK then
    return { mp_ack }, false
  end
  if opcode == MP_ACK_MAP then
    return { mp_ack, mp_ack_map }, false
  end
  local code = bit32.band(opcode, 0x1f)
  local headers = { mp_data }
  local function add(condition, header)
    if condition then
      headers[#headers + 1] = header
    end
  end
  add(code >= 0x06 and code <= 0x0c, reth)
  add(code == 0x13 or code == 0x14, atomic_eth)
  add(code == 0x18, aeth)
  add(code == 0x12, atomic_ack_eth)
  add(code == 0x03 or code == 0x05 or code == 0x09 or code == 0x0b, immdt)
  add(code == 0x16 or code == 0x17, ieth)
  local has_payload = code <= 0x10 and code ~= 0x0c or code == 0x16 or code == 0x17
  return headers, has_payload
end

-- ---- The packet

local BTH_BYTES, ICRC_BYTES = 12, 4

-- A capture may hold less than the packet had: the snap length.
local function trailer(tvb, at, tree, has_payload)
  local whole, captured = tvb:reported_len(), tvb:len()
  local pad = tvb(1, 1):bitfield(2, 2)
  local payload_end = whole - ICRC_BYTES - pad
  if payload_end < at then
    tree:add_proto_expert_info(e_truncated)
    return
  end
  if has_payload then
    local there = math.min(payload_end, captured) - at
    tree:add(f.payload_len, tvb(at, there), payload_end - at)
    if there > 0 then
      tree:add(f.payload, tvb(at, there))
    end
  end
  if pad > 0 and payload_end + pad <= captured then
    tree:add(f.pad, tvb(payload_end, pad))
  end
  if whole <= captured then
    tree:add_le(f.icrc, tvb(whole - ICRC_BYTES, ICRC_BYTES))
  end
end

local function dissect_mp(tvb, pinfo, root)
  local opcode = tvb(0, 1):uint()
  local tree = root:add(mprdma, tvb(), "MP-RDMA, " .. (OPCODES[opcode] or "unknown opcode"))
  local shown = tree:add(f.opcode, tvb(0, 1))
  pinfo.cols.protocol = "MP-RDMA"
  if not OPCODES[opcode] then
    shown:add_proto_expert_info(e_opcode)
    return
  end
  pinfo.cols.info = OPCODES[opcode]
  local info = pinfo.cols.info
  info:append((" QP=0x%06x PSN=%d"):format(tvb(5, 3):uint(), tvb(9, 3):uint()))
  local headers, has_payload = headers_of(opcode)
  local at = BTH_BYTES
  for _, header in ipairs(headers) do
    if at + SIZES[header] > tvb:reported_len() then
      tree:add_proto_expert_info(e_truncated)
      return
    end
    if at + SIZES[header] > tvb:len() then
      return
    end
    header(tvb, at, tree, info)
    at = at + SIZES[header]
  end
  trailer(tvb, at, tree, has_payload)
end

-- ---- The management datagram: in a UD packet to queue pair 1

local UD_SEND_ONLY, QP1, MAD_AT, MAD_BYTES = 0x64, 1, 20, 256
local PAIR_CLASS, PAIR_OUI, PAIR_OUI_AT, PAIR_AT = 0x4d, 0x024d52, 37, 40
local PAIR_ATTRIBUTE = 0x0010

local function is_pair_mad(tvb)
  return tvb:len() == MAD_AT + MAD_BYTES + ICRC_BYTES
    and tvb(0, 1):uint() == UD_SEND_ONLY
    and tvb(5, 3):uint() == QP1
    and tvb(MAD_AT + 1, 1):uint() == PAIR_CLASS
    and tvb(MAD_AT + 16, 2):uint() == PAIR_ATTRIBUTE
    and tvb(MAD_AT + PAIR_OUI_AT, 3):uint() == PAIR_OUI
end

local function dissect_pair_mad(tvb, pinfo, root)
  local mad = tvb(MAD_AT, MAD_BYTES):tvb()
  local tree = root:add(mprdma, mad(), "MP-RDMA, agreement on the mode of a pair")
  local status = mad(4, 2):uint()
  local is_response = mad(3, 1):bitfield(0) == 1
  tree:add(f.pair_response, mad(3, 1))
  tree:add(f.pair_status, mad(4, 2))
  tree:add(f.pair_transaction, mad(8, 8))
  pinfo.cols.protocol = "MP-RDMA"
  pinfo.cols.info = is_response and "PAIR_ANSWER" or "PAIR_QUESTION"
  if is_response and status ~= 0 then
    pinfo.cols.info:append((" status=0x%04x"):format(status))
    return
  end
  local at = PAIR_AT
  tree:add(f.pair_version, mad(at, 1))
  tree:add(f.pair_phase, mad(at + 1, 1))
  tree:add(f.pair_ordered, mad(at + 1, 1))
  tree:add(f.pair_pinned, mad(at + 2, 1))
  tree:add(f.pair_mode, mad(at + 3, 1))
  local abilities = tree:add(f.pair_abilities, mad(at + 4, 4))
  for mode = 1, #MODES do
    if bit32.btest(mad(at + 4, 4):uint(), bit32.lshift(1, mode)) then
      abilities:append_text(" " .. MODES[mode])
    end
  end
  tree:add(f.pair_slots, mad(at + 8, 2))
  local segment = mad(at + 10, 2)
  tree:add(f.pair_segment, segment, segment:uint() * SEGMENT_UNIT)
  tree:add(f.pair_runs, mad(at + 12, 1))
  tree:add(f.pair_sender, mad(at + 13, 3))
  tree:add(f.pair_receiver, mad(at + 17, 3))
  local text = " from=0x%06x to=0x%06x %s mode=%s pinned=%s"
  pinfo.cols.info:append(
    text:format(
      mad(at + 13, 3):uint(),
      mad(at + 17, 3):uint(),
      PHASES[mad(at + 1, 1):bitfield(0, 2)] or "?",
      MODES[mad(at + 3, 1):uint()] or "?",
      MODES[mad(at + 2, 1):uint()] or "?"
    )
  )
end

-- Wireshark's own dissector, which had the port before.
local udp_port = DissectorTable.get("udp.port")
local infiniband = udp_port:get_dissector(4791)

function mprdma.dissector(tvb, pinfo, root)
  infiniband:call(tvb, pinfo, root)
  if tvb:len() < BTH_BYTES + ICRC_BYTES then
    return
  end
  local opcode = tvb(0, 1):uint()
  if opcode >= MP_FIRST and opcode <= MP_LAST then
    dissect_mp(tvb, pinfo, root)
  elseif is_pair_mad(tvb) then
    dissect_pair_mad(tvb, pinfo, root)
  end
end

udp_port:set(4791, mprdma)
