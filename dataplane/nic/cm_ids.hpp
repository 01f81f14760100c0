// The communication ids of a process whose CM agent is in mprdmad, and what has to be known of them
// to make them again when the daemon was restarted: then the agent there knows none.
//
// A process has numbers of its own for them, which stay. After a restart an id that is idle, bound
// or listening is made anew; one that was about to resolve or connect is told that nobody answers;
// a connection that stands goes on without the agent, and is ended here alone.
//
// Pure, not thread safe: DaemonLink has the lock.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <unordered_map>

#include "abi/mprdma_abi.h"
#include "abi/mprdma_abi_cm.h"

namespace mprdma::dataplane::nic {

class CmIds {
 public:
  using Client = const mprdma_abi_client*;
  struct Event {
    Client client = nullptr;
    mprdma_abi_cm_event event{};
  };

  // ---- Commands of a client
  // A command as the agent has to see it. 0: *out is to be sent, and on_reply() told; else, or if
  // *done, it is answered here: an errno value, or 0.
  int begin(Client client, const mprdma_abi_cm_command& in, mprdma_abi_cm_command* out, bool* done);
  // What the agent said. `result` is what the client gets, where error is 0.
  void on_reply(Client client, const mprdma_abi_cm_command& in, int error,
                mprdma_abi_cm_result* result);
  // Its ids are gone. forgotten(id of the agent) for each that the agent has.
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
  // False: it is of an id that is gone; *unwanted is an id of the agent's to destroy, or 0.
  bool take(const mprdma_abi_cm_event& event, Event* out, uint32_t* unwanted);

  // ---- The agent was started anew
  void on_restart();
  // Events that on_restart() and begin() made.
  bool poll_event(Event* out);
  // Commands that make the ids anew, one at a time for each id: `number` names it in on_restored().
  bool poll_restore(uint32_t* number, mprdma_abi_cm_command* out);
  // An id of the agent's to destroy, because it was destroyed here meanwhile; or 0.
  uint32_t on_restored(uint32_t number, int error, const mprdma_abi_cm_result& result);

  [[nodiscard]] size_t size() const { return ids_.size(); }

 private:
  enum class State : uint8_t { kIdle, kResolving, kConnecting, kRequested, kConnected, kEnding };
  enum class Restore : uint8_t { kNone, kCreate, kOptions, kBind, kListen };

  struct Id {
    Client client = nullptr;
    uint32_t agents = 0;  // its number with the agent; 0: the agent does not know it
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

}  // namespace mprdma::dataplane::nic
