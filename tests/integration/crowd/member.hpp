// A process of the crowd: ids of rdma_cm, connections to others and from others, and the steps that
// it is told to take.
//
// The file `step` of the directory has the step to take: its number (0: stop), how many messages
// each connection has to move in each direction, and which processes are dead or about to die. A
// process that has done a step makes the file `done.NUMBER.STEP`.
#pragma once

#include <rdma/rdma_cma.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/integration/crowd/args.hpp"
#include "tests/integration/crowd/connection.hpp"

namespace mprdma::crowd {

class Member {
 public:
  explicit Member(const Args& args);
  ~Member();
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  // Until it is told to stop.
  void run();

 private:
  struct Step {
    uint32_t number = ~0u;
    uint64_t messages = 0;
    std::set<uint32_t> dead;
  };

  void open_device(ibv_context* context);
  void hold(uint16_t space, bool listens);
  void dial(uint32_t peer, bool connects);
  void write_ports();
  void process_events();
  void on_event(const rdma_cm_event& event);
  void on_request(const rdma_cm_event& event);
  void on_route(rdma_cm_id* id);
  void take_completions();
  void read_step();
  void look_at_step();
  [[nodiscard]] bool step_is_done() const;
  void bury();
  [[nodiscard]] bool stopped() const { return step_.number == 0; }
  Connection& add(rdma_cm_id* id, uint32_t peer);
  [[nodiscard]] std::string path(const std::string& name) const {
    return args_.directory + "/" + name;
  }

  const Args& args_;
  rdma_event_channel* channel_;
  ibv_pd* pd_ = nullptr;
  ibv_comp_channel* completions_ = nullptr;
  ibv_cq* cq_ = nullptr;
  std::vector<rdma_cm_id*> held_;  // ids without a connection; the first is the listener
  std::map<rdma_cm_id*, uint32_t> dialling_;
  std::map<uint32_t, std::unique_ptr<Connection>> connections_;  // by queue pair number
  uint32_t established_ = 0;
  Step step_;
  uint32_t done_ = ~0u;
};

}  // namespace mprdma::crowd
