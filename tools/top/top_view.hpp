// Output of `mprdma top` from two samples of the same processes: rates, a table, JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/top/top_client.hpp"

namespace mprdma::tools {

struct TopQp {
  dataplane::TopRecord now{};
  bool has_rate = false;  // it was there before, too
  double tx_bps = 0;      // payload, each byte once
  double rx_bps = 0;
};

struct TopRow {
  TopProcess process;  // without its queue pairs
  std::vector<TopQp> qps;
};

std::vector<TopRow> compare(const std::vector<TopProcess>& before,
                            const std::vector<TopProcess>& now);

// The stream that a line of the table shows: of the two the one that has sent more.
const mprdma_abi_stream_stats& busier_stream(const dataplane::TopRecord& record);

// The busiest queue pairs first, at most `lines` of them.
std::string as_table(const std::vector<TopRow>& rows, size_t lines);

nlohmann::json as_json(const std::vector<TopRow>& rows);

}  // namespace mprdma::tools
