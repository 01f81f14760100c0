#include "dataplane/client/cm_id_journal.hpp"

#include <cerrno>

namespace mprdma::dataplane::client {

uint32_t CmIds::add(Client client, uint32_t agents, uint64_t cookie, uint32_t port_space) {
  do {
    ++last_number_;
  } while (last_number_ == 0 || ids_.contains(last_number_));
  Id& id = ids_[last_number_];
  id.client = client;
  id.agents = agents;
  id.cookie = cookie;
  id.port_space = port_space;
  by_agent_[agents] = last_number_;
  return last_number_;
}

int CmIds::begin(Client client, const mprdma_abi_cm_command& in, mprdma_abi_cm_command* out,
                 bool* done) {
  *out = in;
  *done = false;
  if (in.op == MPRDMA_ABI_CM_CREATE) return 0;
  const auto found = ids_.find(in.id);
  if (found == ids_.end() || found->second.client != client) return ENOENT;
  Id& id = found->second;
  const bool ready = id.restore == Restore::kNone || in.op == MPRDMA_ABI_CM_DESTROY;
  if (id.agents == 0 || !ready) {
    *done = true;
    return without_agent(in.id, &id, in);
  }
  out->id = id.agents;
  return 0;
}

// The agent has forgotten the id, or has not made it again yet.
int CmIds::without_agent(uint32_t number, Id* id, const mprdma_abi_cm_command& in) {
  if (in.op == MPRDMA_ABI_CM_DESTROY) {
    ids_.erase(number);
    return 0;
  }
  if (in.op == MPRDMA_ABI_CM_SET_COOKIE) {
    id->cookie = in.cookie;
    return 0;
  }
  if (in.op == MPRDMA_ABI_CM_DISCONNECT &&
      (id->state == State::kConnected || id->state == State::kEnding)) {
    if (id->state == State::kConnected) tell(number, *id, MPRDMA_ABI_CM_EVENT_DISCONNECTED, 0);
    tell(number, *id, MPRDMA_ABI_CM_EVENT_TIMEWAIT_EXIT, 0);
    id->state = State::kIdle;
    return 0;
  }
  return ENOTCONN;
}

void CmIds::on_reply(Client client, const mprdma_abi_cm_command& in, int error,
                     mprdma_abi_cm_result* result) {
  if (error != 0) return;
  if (in.op == MPRDMA_ABI_CM_CREATE) {
    result->id = add(client, result->id, in.cookie, in.port_space);
    return;
  }
  const auto found = ids_.find(in.id);
  if (found == ids_.end()) return;
  if (in.op == MPRDMA_ABI_CM_DESTROY) {
    by_agent_.erase(found->second.agents);
    ids_.erase(found);
    return;
  }
  note(&found->second, in, *result);
  result->id = in.id;
}

void CmIds::note(Id* id, const mprdma_abi_cm_command& in, const mprdma_abi_cm_result& result) {
  switch (in.op) {
    case MPRDMA_ABI_CM_BIND:
      id->bound = true;
      id->local = result.local;
      break;
    case MPRDMA_ABI_CM_LISTEN:
      id->listening = true;
      id->backlog = in.backlog;
      break;
    case MPRDMA_ABI_CM_RESOLVE:
      id->state = State::kResolving;
      id->local = result.local;
      id->remote = in.remote;
      break;
    case MPRDMA_ABI_CM_CONNECT:
    case MPRDMA_ABI_CM_ACCEPT:
      id->state = State::kConnecting;
      break;
    case MPRDMA_ABI_CM_ESTABLISH:
      id->state = State::kConnected;
      break;
    case MPRDMA_ABI_CM_REJECT:
      id->state = State::kIdle;
      break;
    case MPRDMA_ABI_CM_DISCONNECT:
      id->state = State::kEnding;
      break;
    case MPRDMA_ABI_CM_SET_OPTION:
      id->options[in.option] = in.value;
      break;
    case MPRDMA_ABI_CM_SET_COOKIE:
      id->cookie = in.cookie;
      break;
    default:
      break;
  }
}

bool CmIds::take(const mprdma_abi_cm_event& event, Event* out, uint32_t* unwanted) {
  *unwanted = 0;
  out->event = event;
  if (event.type == MPRDMA_ABI_CM_EVENT_REQUEST) {
    const auto listener = by_agent_.find(event.listener);
    if (listener == by_agent_.end()) {
      *unwanted = event.id;
      return false;
    }
    const Id& listening = ids_.at(listener->second);
    out->client = listening.client;
    out->event.listener = listener->second;
    out->event.id = add(listening.client, event.id, listening.cookie, event.port_space);
    Id& made = ids_.at(out->event.id);
    made.state = State::kRequested;
    made.local = event.local;
    made.remote = event.remote;
    return true;
  }
  const auto found = by_agent_.find(event.id);
  if (found == by_agent_.end()) return false;
  Id& id = ids_.at(found->second);
  out->client = id.client;
  out->event.id = found->second;
  switch (event.type) {
    case MPRDMA_ABI_CM_EVENT_ESTABLISHED:
      id.state = State::kConnected;
      break;
    case MPRDMA_ABI_CM_EVENT_DISCONNECTED:
      id.state = State::kEnding;
      break;
    case MPRDMA_ABI_CM_EVENT_RESPONSE:
      break;
    default:
      id.state = State::kIdle;
      break;
  }
  return true;
}

bool CmIds::poll_event(Event* out) {
  if (events_.empty()) return false;
  *out = events_.front();
  events_.pop_front();
  return true;
}

void CmIds::tell(uint32_t number, const Id& id, uint32_t type, int status) {
  Event& told = events_.emplace_back();
  told.client = id.client;
  told.event.type = type;
  told.event.id = number;
  told.event.status = status;
  told.event.cookie = id.cookie;
  told.event.local = id.local;
  told.event.remote = id.remote;
  told.event.port_space = id.port_space;
}

void CmIds::on_restart() {
  by_agent_.clear();
  for (auto& [number, id] : ids_) {
    id.agents = 0;
    id.asked = false;
    if (id.state == State::kConnected || id.state == State::kEnding) continue;
    if (id.state == State::kResolving) {
      tell(number, id, MPRDMA_ABI_CM_EVENT_ADDRESS_ERROR, -ETIMEDOUT);
    } else if (id.state != State::kIdle) {
      tell(number, id, MPRDMA_ABI_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
    }
    id.state = State::kIdle;
    id.restore = Restore::kCreate;
  }
}

bool CmIds::poll_restore(uint32_t* number, mprdma_abi_cm_command* out) {
  for (auto& [its_number, id] : ids_) {
    if (id.restore == Restore::kNone || id.asked) continue;
    id.asked = true;
    *number = its_number;
    *out = {};
    out->id = id.agents;
    out->cookie = id.cookie;
    out->port_space = id.port_space;
    switch (id.restore) {
      case Restore::kCreate:
        out->op = MPRDMA_ABI_CM_CREATE;
        break;
      case Restore::kOptions:
        out->op = MPRDMA_ABI_CM_SET_OPTION;
        out->option = id.next_option->first;
        out->value = id.next_option->second;
        break;
      case Restore::kBind:
        out->op = MPRDMA_ABI_CM_BIND;
        out->local = id.local;
        break;
      default:
        out->op = MPRDMA_ABI_CM_LISTEN;
        out->backlog = id.backlog;
        break;
    }
    return true;
  }
  return false;
}

uint32_t CmIds::on_restored(uint32_t number, int error, const mprdma_abi_cm_result& result) {
  const auto found = ids_.find(number);
  if (found == ids_.end()) return error == 0 ? result.id : 0;
  Id& id = found->second;
  id.asked = false;
  if (error != 0) {
    // Somebody else has its port by now, or there is no room for it.
    id.restore = Restore::kNone;
    tell(number, id, MPRDMA_ABI_CM_EVENT_DEVICE_REMOVAL, -error);
    return 0;
  }
  if (id.restore == Restore::kCreate) {
    id.agents = result.id;
    by_agent_[id.agents] = number;
    id.next_option = id.options.begin();
  } else if (id.restore == Restore::kOptions) {
    ++id.next_option;
  }
  advance(&id);
  return 0;
}

// To the next thing that has to be said of it again.
void CmIds::advance(Id* id) {
  if (id->restore <= Restore::kOptions && id->next_option != id->options.end()) {
    id->restore = Restore::kOptions;
  } else if (id->restore <= Restore::kOptions && id->bound) {
    id->restore = Restore::kBind;
  } else if (id->restore <= Restore::kBind && id->listening) {
    id->restore = Restore::kListen;
  } else {
    id->restore = Restore::kNone;
  }
}

}  // namespace mprdma::dataplane::client
