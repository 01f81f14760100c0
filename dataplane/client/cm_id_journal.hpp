// The communication ids of a process whose CM agent is in mprdmad, with the state needed to create
// them again after a restart of the daemon, whose new agent knows none of them.
//
// The process's own numbers for the ids never change. After a restart, an id that is idle, bound or
// listening is created again; an id that was resolving or connecting gets the event of a peer that
// does not answer; an established connection goes on without the agent, and ends on this side
// alone.
//
// Pure, not thread safe: DaemonLink holds the lock.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <unordered_map>

#include "abi/mprdma_abi.h"
#include "abi/mprdma_abi_cm.h"

namespace mprdma::dataplane::client {

class CmIds {
 public:
  using Client = const mprdma_abi_client*;
  struct Event {
    Client client = nullptr;
    mprdma_abi_cm_event event{};
  };

  // ---- Commands of a client
  // Translates a command for the agent. 0: the caller sends *out and passes the reply to
  // on_reply(). An errno value, or *done: the command is answered without the agent.
  int begin(Client client, const mprdma_abi_cm_command& in, mprdma_abi_cm_command* out, bool* done);
  // Takes the agent's reply. `result` is the client's result where error is 0.
  void on_reply(Client client, const mprdma_abi_cm_command& in, int error,
                mprdma_abi_cm_result* result);
  // Drops the client's ids. Calls forgotten(id of the agent) for each id that the agent knows.
  template <class F>
  void forget(Client client, F&& forgotten) {
    std::erase_if(ids_, [&](const auto& entry) {
      const Id& id = entry.second;
      if (id.client != client) return false;
      if (id.agents != 0) forgotten(id.agents), by_agent_.erase(id.agents);
      return true;
    });
  }

  // ---- Events of the agent
  // False: the event's id no longer exists; *unwanted is an id of the agent to destroy, or 0.
  bool take(const mprdma_abi_cm_event& event, Event* out, uint32_t* unwanted);

  // ---- The agent was restarted
  void on_restart();
  // Next event that on_restart() or begin() queued.
  bool poll_event(Event* out);
  // Next command that creates an id again, one at a time for each id: `number` names the id in
  // on_restored().
  bool poll_restore(uint32_t* number, mprdma_abi_cm_command* out);
  // Returns an id of the agent to destroy, because the process destroyed it meanwhile; or 0.
  uint32_t on_restored(uint32_t number, int error, const mprdma_abi_cm_result& result);

  [[nodiscard]] size_t size() const { return ids_.size(); }

 private:
  enum class State : uint8_t { kIdle, kResolving, kConnecting, kRequested, kConnected, kEnding };
  enum class Restore : uint8_t { kNone, kCreate, kOptions, kBind, kListen };

  struct Id {
    Client client = nullptr;
    uint32_t agents = 0;  // the agent's number for the id; 0: the agent does not know it
    State state = State::kIdle;
    Restore restore = Restore::kNone;
    bool asked = false;  // a command of the restoration is on its way
    bool bound = false;
    bool listening = false;
    uint64_t cookie = 0;
    uint32_t port_space = 0;
    uint32_t backlog = 0;
    mprdma_abi_cm_address local{};
    mprdma_abi_cm_address remote{};
    std::map<uint32_t, uint32_t> options;
    std::map<uint32_t, uint32_t>::const_iterator next_option;
  };

  uint32_t add(Client client, uint32_t agents, uint64_t cookie, uint32_t port_space);
  void note(Id* id, const mprdma_abi_cm_command& in, const mprdma_abi_cm_result& result);
  void tell(uint32_t number, const Id& id, uint32_t type, int status);
  int without_agent(uint32_t number, Id* id, const mprdma_abi_cm_command& in);
  void advance(Id* id);

  std::unordered_map<uint32_t, Id> ids_;
  std::unordered_map<uint32_t, uint32_t> by_agent_;
  std::deque<Event> events_;
  uint32_t last_number_ = 0;
};

}  // namespace mprdma::dataplane::client
