// The words of scripts for what the transport has as enums and flags, both ways.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tests/conformance/runner/script.hpp"
#include "transport/core/memory_table.hpp"
#include "transport/core/types.hpp"
#include "transport/qp.hpp"

namespace mprdma::conformance {

template <class Value>
struct Word {
  std::string_view word;
  Value value;
};

inline constexpr Word<transport::QpState> kStates[] = {
    {"reset", transport::QpState::kReset}, {"init", transport::QpState::kInit},
    {"rtr", transport::QpState::kRtr},     {"rts", transport::QpState::kRts},
    {"sqd", transport::QpState::kSqd},     {"sqe", transport::QpState::kSqe},
    {"err", transport::QpState::kErr},
};

inline constexpr Word<transport::QpService> kServices[] = {
    {"rc", transport::QpService::kRc},
    {"uc", transport::QpService::kUc},
    {"ud", transport::QpService::kUd},
    {"xrc_send", transport::QpService::kXrcSend},
    {"xrc_recv", transport::QpService::kXrcReceive},
};

inline constexpr Word<transport::WorkOpcode> kOperations[] = {
    {"send", transport::WorkOpcode::kSend},
    {"send_imm", transport::WorkOpcode::kSendImm},
    {"send_inv", transport::WorkOpcode::kSendInvalidate},
    {"write", transport::WorkOpcode::kWrite},
    {"write_imm", transport::WorkOpcode::kWriteImm},
    {"read", transport::WorkOpcode::kRead},
    {"cas", transport::WorkOpcode::kCompareSwap},
    {"faa", transport::WorkOpcode::kFetchAdd},
    {"local_inv", transport::WorkOpcode::kLocalInvalidate},
    {"bind", transport::WorkOpcode::kBindMw},
};

inline constexpr Word<transport::WcOpcode> kWcOpcodes[] = {
    {"send", transport::WcOpcode::kSend},
    {"write", transport::WcOpcode::kWrite},
    {"read", transport::WcOpcode::kRead},
    {"cas", transport::WcOpcode::kCompareSwap},
    {"faa", transport::WcOpcode::kFetchAdd},
    {"bind", transport::WcOpcode::kBindMw},
    {"local_inv", transport::WcOpcode::kLocalInvalidate},
    {"recv", transport::WcOpcode::kRecv},
    {"recv_write_imm", transport::WcOpcode::kRecvWriteImm},
};

// As ibv_wc_status has them, without its prefix.
inline constexpr Word<transport::WcStatus> kStatuses[] = {
    {"success", transport::WcStatus::kSuccess},
    {"loc_len_err", transport::WcStatus::kLocalLengthError},
    {"loc_qp_op_err", transport::WcStatus::kLocalQpOperationError},
    {"loc_prot_err", transport::WcStatus::kLocalProtectionError},
    {"wr_flush_err", transport::WcStatus::kFlushError},
    {"mw_bind_err", transport::WcStatus::kMwBindError},
    {"bad_resp_err", transport::WcStatus::kBadResponseError},
    {"loc_access_err", transport::WcStatus::kLocalAccessError},
    {"rem_inv_req_err", transport::WcStatus::kRemoteInvalidRequestError},
    {"rem_access_err", transport::WcStatus::kRemoteAccessError},
    {"rem_op_err", transport::WcStatus::kRemoteOperationError},
    {"retry_exc_err", transport::WcStatus::kRetryExceeded},
    {"rnr_retry_exc_err", transport::WcStatus::kRnrRetryExceeded},
};

inline constexpr Word<transport::QpEvent> kEvents[] = {
    {"qp_fatal", transport::QpEvent::kFatal},
    {"qp_req_err", transport::QpEvent::kRequestError},
    {"qp_access_err", transport::QpEvent::kAccessError},
    {"comm_est", transport::QpEvent::kCommEstablished},
    {"sq_drained", transport::QpEvent::kSqDrained},
    {"last_wqe_reached", transport::QpEvent::kLastWqeReached},
};

inline constexpr Word<uint32_t> kFlags[] = {
    {"unsignaled", 0},
    {"signaled", transport::kSignaled},
    {"solicited", transport::kSolicited},
    {"fence", transport::kFence},
    {"inline", transport::kInline},
    {"synchronise", transport::kSynchronise},
};

inline constexpr Word<uint32_t> kAccess[] = {
    {"none", 0},
    {"local", transport::kLocalWrite},
    {"write", transport::kRemoteWrite},
    {"read", transport::kRemoteRead},
    {"atomic", transport::kRemoteAtomic},
    {"bind", transport::kMwBind},
    {"zero_based", transport::kZeroBased},
    {"relaxed", transport::kRelaxedOrdering},
};

inline constexpr Word<transport::PostResult> kPostResults[] = {
    {"ok", transport::PostResult::kOk},
    {"full", transport::PostResult::kQueueFull},
    {"bad_state", transport::PostResult::kBadState},
    {"bad_request", transport::PostResult::kBadRequest},
    {"not_supported", transport::PostResult::kNotSupported},
};

template <class Value, size_t n>
std::string words_of(const Word<Value> (&table)[n]) {
  std::string all;
  for (const auto& entry : table) all.append(all.empty() ? "" : " ").append(entry.word);
  return all;
}

template <class Value, size_t n>
Value value_of(const Step& step, std::string_view word, const Word<Value> (&table)[n]) {
  const auto* const entry = std::ranges::find(table, word, &Word<Value>::word);
  if (entry == std::end(table)) {
    step.fail("expected one of: " + words_of(table) + "; got '" + std::string(word) + "'");
  }
  return entry->value;
}

// Words separated by commas, or-ed.
template <size_t n>
uint32_t flags_of(const Step& step, std::string_view words, const Word<uint32_t> (&table)[n]) {
  uint32_t flags = 0;
  for (const std::string& word : split(words, ',')) flags |= value_of(step, word, table);
  return flags;
}

template <class Value, size_t n>
std::string word_of(Value value, const Word<Value> (&table)[n]) {
  const auto* const entry = std::ranges::find(table, value, &Word<Value>::value);
  return entry == std::end(table) ? "?" : std::string(entry->word);
}

}  // namespace mprdma::conformance
