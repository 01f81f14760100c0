#include "switchsim/model/routes.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "base/check.hpp"
#include "base/prng.hpp"

namespace mprdma::switchsim {

Routes::Routes(const Topology& topology, uint64_t seed)
    : hosts_(topology.hosts), switches_(topology.switches), usable_(topology.links.size(), true) {
  for (const LinkConfig& link : topology.links) {
    CHECK(link.a < topology.nodes() && link.b < topology.nodes() && link.a != link.b);
  }
  const Prng seeds = Prng(seed).split("ecmp");
  for (uint32_t at = 0; at < switches_.size(); ++at) {
    switches_[at].seed = seeds.split(at).next_u64();
  }
  attach(topology);
  connect(topology);
  compute();
}

void Routes::attach(const Topology& topology) {
  attachments_.resize(hosts_);
  std::vector<uint32_t> index_of(switches_.size(), kNoLeaf);
  for (PortId port = 0; port < topology.ports(); ++port) {
    const NodeId host = topology.from(port);
    if (host >= hosts_) continue;
    Attachment& attachment = attachments_[host];
    CHECK(attachment.up == kNoPort);  // a host has one link
    attachment.up = port;
    attachment.down = port ^ 1;
    attachment.leaf = topology.to(port);
    if (attachment.leaf < hosts_) continue;
    uint32_t& index = index_of[attachment.leaf - hosts_];
    if (index == kNoLeaf) {
      index = leaves_++;
      leaf_switches_.push_back(attachment.leaf - hosts_);
    }
    attachment.leaf_index = index;
  }
  for (const Attachment& attachment : attachments_) CHECK(attachment.up != kNoPort);
}

void Routes::connect(const Topology& topology) {
  const auto switches = static_cast<uint32_t>(switches_.size());
  neighbour_first_.assign(switches + 1, 0);
  const auto inner = [&](PortId port) {
    return topology.from(port) >= hosts_ && topology.to(port) >= hosts_;
  };
  for (PortId port = 0; port < topology.ports(); ++port) {
    if (inner(port)) ++neighbour_first_[topology.from(port) - hosts_ + 1];
  }
  for (uint32_t at = 0; at < switches; ++at) neighbour_first_[at + 1] += neighbour_first_[at];
  neighbours_.resize(neighbour_first_[switches]);
  std::vector<uint32_t> next(neighbour_first_.begin(), neighbour_first_.end() - 1);
  for (PortId port = 0; port < topology.ports(); ++port) {
    if (!inner(port)) continue;
    neighbours_[next[topology.from(port) - hosts_]++] = {port, topology.to(port) - hosts_};
  }
}

// Makes the tables leaf by leaf.
//
// Leaves with links to the same switches are twins: whatever is not beside them has the same ways
// to both, so that one search serves all twins (in a fat-tree the ToRs of a pod).
//
// Rows are made by refinement: at first all switches share one row. Each leaf fills in a cell, and
// a row is split where the switches that share it have different cells. So there are never more
// rows in memory than differ.
class Routes::Builder {
 public:
  explicit Builder(Routes* routes)
      : r_(*routes),
        switches_(static_cast<uint32_t>(routes->switches_.size())),
        column_(switches_),
        hops_(switches_),
        counts_(switches_),
        latest_(switches_, kNone),
        row_of_(switches_),
        rows_(1, std::vector<uint16_t>(routes->leaves_)) {}

  void build() {
    for (const auto& [peers, leaves] : twins()) {
      search(r_.leaf_switches_[leaves[0]]);
      fill_in(leaves[0]);
      for (size_t i = 1; i < leaves.size(); ++i) {
        turn_to_twin(r_.leaf_switches_[leaves[0]], r_.leaf_switches_[leaves[i]], peers);
        fill_in(leaves[i]);
      }
    }
    finish();
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  struct Entry {
    uint32_t at;
    uint16_t number;
    Group group;
  };
  using Peers = std::vector<uint32_t>;  // switches that a leaf has usable links to, in order

  [[nodiscard]] std::map<Peers, std::vector<uint32_t>> twins() const;
  void search(uint32_t leaf);
  void turn_to_twin(uint32_t searched, uint32_t leaf, const Peers& peers);
  void choose(uint32_t at);
  [[nodiscard]] bool is_chosen(uint32_t entry, uint32_t at) const;
  void fill_in(uint32_t leaf_index);
  void finish();

  Routes& r_;
  uint32_t switches_;
  std::vector<uint16_t> column_;  // by switch: number of its group for the present leaf
  std::vector<uint32_t> hops_;    // by switch: to the leaf of the search
  std::vector<PortId> chosen_;    // of the present switch and leaf
  std::vector<Entry> entries_;
  std::vector<uint32_t> counts_;                       // by switch: groups
  std::vector<uint32_t> latest_;                       // by switch: the entry chosen last
  std::unordered_multimap<uint64_t, uint32_t> known_;  // entries by switch and ports
  std::vector<uint32_t> row_of_;                       // by switch
  std::vector<std::vector<uint16_t>> rows_;
};

std::map<Routes::Builder::Peers, std::vector<uint32_t>> Routes::Builder::twins() const {
  std::map<Peers, std::vector<uint32_t>> out;
  for (uint32_t leaf = 0; leaf < r_.leaves_; ++leaf) {
    Peers peers;
    for (const Neighbour& neighbour : r_.neighbours(r_.leaf_switches_[leaf])) {
      if (r_.usable_[neighbour.port / 2]) peers.push_back(neighbour.peer);
    }
    std::sort(peers.begin(), peers.end());
    peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
    out[std::move(peers)].push_back(leaf);
  }
  return out;
}

// Counts the hops from every switch to the leaf, over usable links, and chooses the ports that lead
// to one hop less; those switches were found before.
void Routes::Builder::search(uint32_t leaf) {
  std::fill(hops_.begin(), hops_.end(), kNone);
  std::vector<uint32_t> queue{leaf};
  hops_[leaf] = 0;
  for (size_t done = 0; done < queue.size(); ++done) {
    const uint32_t at = queue[done];
    chosen_.clear();
    for (const Neighbour& neighbour : r_.neighbours(at)) {
      if (!r_.usable_[neighbour.port / 2]) continue;
      if (hops_[neighbour.peer] == kNone) {
        hops_[neighbour.peer] = hops_[at] + 1;
        queue.push_back(neighbour.peer);
      } else if (hops_[neighbour.peer] + 1 == hops_[at]) {
        chosen_.push_back(neighbour.port);
      }
    }
    if (at != leaf) choose(at);
  }
  chosen_.clear();
  for (uint32_t at = 0; at < switches_; ++at) {
    if (hops_[at] == kNone) choose(at);
  }
}

// Makes the column of the leaf that was searched, or of a twin of it, that of another twin. Twins
// are two hops apart, by all links of either.
void Routes::Builder::turn_to_twin(uint32_t searched, uint32_t leaf, const Peers& peers) {
  for (const uint32_t at : peers) {
    chosen_.clear();
    for (const Neighbour& neighbour : r_.neighbours(at)) {
      if (neighbour.peer != leaf || !r_.usable_[neighbour.port / 2]) continue;
      chosen_.push_back(neighbour.port);
    }
    choose(at);
  }
  chosen_.clear();
  for (const Neighbour& neighbour : r_.neighbours(searched)) {
    if (r_.usable_[neighbour.port / 2]) chosen_.push_back(neighbour.port);
  }
  choose(searched);
}

// Puts the number of the group with the chosen ports into the switch's cell of the column.
void Routes::Builder::choose(uint32_t at) {
  uint32_t& latest = latest_[at];
  if (!is_chosen(latest, at)) {
    uint64_t hash = mix64(at);
    for (const PortId port : chosen_) hash = mix64(hash ^ port);
    const auto [begin, end] = known_.equal_range(hash);
    const auto found =
        std::find_if(begin, end, [&](const auto& pair) { return is_chosen(pair.second, at); });
    if (found != end) {
      latest = found->second;
    } else {
      CHECK(counts_[at] <= UINT16_MAX);
      latest = static_cast<uint32_t>(entries_.size());
      entries_.push_back(
          {at,
           static_cast<uint16_t>(counts_[at]++),
           {static_cast<uint32_t>(r_.ports_.size()), static_cast<uint32_t>(chosen_.size())}});
      r_.ports_.insert(r_.ports_.end(), chosen_.begin(), chosen_.end());
      known_.emplace(hash, latest);
    }
  }
  column_[at] = entries_[latest].number;
}

bool Routes::Builder::is_chosen(uint32_t entry, uint32_t at) const {
  if (entry == kNone || entries_[entry].at != at) return false;
  const Group& group = entries_[entry].group;
  return std::equal(chosen_.begin(), chosen_.end(), r_.ports_.begin() + group.first,
                    r_.ports_.begin() + group.first + group.count);
}

// Puts the column into the rows. The leaf's own cell is never read, so it splits no row.
void Routes::Builder::fill_in(uint32_t leaf_index) {
  std::vector<bool> filled(rows_.size());
  std::map<std::pair<uint32_t, uint16_t>, uint32_t> split;  // a row's number by row and cell
  for (uint32_t at = 0; at < switches_; ++at) {
    if (at == r_.leaf_switches_[leaf_index]) continue;
    uint32_t& row = row_of_[at];
    if (!filled[row]) {
      filled[row] = true;
      rows_[row][leaf_index] = column_[at];
    }
    if (rows_[row][leaf_index] == column_[at]) continue;
    const auto [part, added] =
        split.try_emplace({row, column_[at]}, static_cast<uint32_t>(rows_.size()));
    if (added) {
      std::vector<uint16_t> cells = rows_[row];
      cells[leaf_index] = column_[at];
      rows_.push_back(std::move(cells));
    }
    row = part->second;
  }
}

void Routes::Builder::finish() {
  r_.cells_.reserve(rows_.size() * r_.leaves_);
  for (const std::vector<uint16_t>& row : rows_) {
    r_.cells_.insert(r_.cells_.end(), row.begin(), row.end());
  }
  uint32_t first_group = 0;
  for (uint32_t at = 0; at < switches_; ++at) {
    r_.switches_[at].row = size_t{row_of_[at]} * r_.leaves_;
    r_.switches_[at].first_group = first_group;
    first_group += counts_[at];
  }
  r_.groups_.resize(entries_.size());
  for (const Entry& entry : entries_) {
    r_.groups_[r_.switches_[entry.at].first_group + entry.number] = entry.group;
  }
}

void Routes::compute() {
  groups_.clear();
  ports_.clear();
  cells_.clear();
  Builder(this).build();
}

std::span<const PortId> Routes::next_ports(NodeId node, NodeId destination) const {
  const Attachment& host = attachments_[destination];
  if (host.leaf == node) return {&host.down, 1};
  if (host.leaf_index == kNoLeaf) return {};
  const Switch& at = switches_[node - hosts_];
  const Group group = groups_[at.first_group + cells_[at.row + host.leaf_index]];
  return {ports_.data() + group.first, group.count};
}

}  // namespace mprdma::switchsim
