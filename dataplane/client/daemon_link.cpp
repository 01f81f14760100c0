#include "dataplane/client/daemon_link.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "dataplane/sys/async_close.hpp"
#include "dataplane/sys/clock.hpp"

namespace mprdma::dataplane::client {

namespace {

constexpr Duration kDialInterval = Duration::ms(20);
constexpr Duration kDialIntervalRefused = Duration::s(1);
constexpr Duration kWelcomeTimeout = Duration::s(5);
// open(): in all, and while nobody listens there (a daemon that is being restarted).
constexpr Duration kOpenTimeout = Duration::s(15);
constexpr Duration kAbsentLasts = Duration::s(1);
// Bounds what one call can cost.
constexpr int kMessagesPerRead = 256;
// Events that wait for an application which does not let the worker run.
constexpr size_t kEventsMax = 65536;

uint64_t random_instance() {
  uint64_t instance = 0;
  if (getrandom(&instance, sizeof instance, 0) != sizeof instance || instance == 0) {
    instance = static_cast<uint64_t>(clock_now().ns()) ^ static_cast<uint64_t>(getpid()) << 40;
  }
  return instance | 1;  // never 0
}

bool watch(int epoll_fd, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

void close_fd(int* fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

std::string silent(const std::string& path) {
  return "mprdmad at " + path + " does not answer; is it stopped?";
}

}  // namespace

DaemonLink::DaemonLink(std::string path)
    : path_(std::move(path)),
      instance_(random_instance()),
      epoll_fd_(epoll_create1(EPOLL_CLOEXEC)),
      bell_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

DaemonLink::~DaemonLink() {
  close_after_fork();
}

void DaemonLink::close_after_fork() {
  close_fd(&fd_);
  for (OfferedRing& offer : offers_) close_fd(&offer.socket);
  offers_.clear();
  close_fd(&port_socket_);
  close_fd(&bell_fd_);
  close_fd(&epoll_fd_);
}

DaemonDevice DaemonLink::device() const {
  return {first_.ipv4, first_.prefix_bits, first_.mac, first_.mtu};
}

// ---- The connection

Status DaemonLink::open(int* port_socket) {
  if (path_.empty() || path_.size() >= sizeof(sockaddr_un::sun_path)) {
    return {ENAMETOOLONG,
            "the socket path '" + path_ + "' is empty or longer than 107 bytes; shorten it"};
  }
  if (epoll_fd_ < 0 || bell_fd_ < 0 || !watch(epoll_fd_, bell_fd_)) {
    return {EMFILE, "no descriptor for the connection to mprdmad; raise `ulimit -n`"};
  }
  const Time start = clock_now();
  Status said;  // by the last dial that failed
  for (Time now = start; now - start < kOpenTimeout; now = clock_now()) {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (state_ == State::kNone) {
      if (!refusal_.empty()) return {EACCES, refusal_};
      Status status = dial();
      const bool absent = status.error == ENOENT || status.error == ECONNREFUSED;
      const bool wait = status.error == EAGAIN || (absent && now - start < kAbsentLasts);
      if (!status.ok() && !wait) return status;
      if (status.ok()) {
        welcome_until_ = now + kWelcomeTimeout;
        said = {};
      } else {
        said = std::move(status);
      }
    }
    pollfd waiting{fd_, POLLIN, 0};
    ::poll(&waiting, 1, 10);
    if (state_ != State::kNone) read_all(clock_now());
    if (state_ != State::kServed) continue;
    *port_socket = std::exchange(port_socket_, -1);
    block_ = given_;
    rings_.emplace(first_.mac, epoll_fd_);
    return {};
  }
  return {ETIMEDOUT, said.ok() ? silent(path_) : said.text};
}

// Connects and says Hello. EAGAIN: worth another attempt at once.
Status DaemonLink::dial() {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path_.c_str(), path_.size() + 1);
  int fd = new_message_socket();
  if (fd < 0) {
    return {errno, "no descriptor for the connection to mprdmad; raise `ulimit -n`"};
  }
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    const int error = errno;
    close(fd);
    return {error, "no mprdmad at " + path_ + " (" + std::strerror(error) +
                       "): start it, or start the program with `mprdma run -- PROGRAM`"};
  }
  if (!is_of_trusted_user(fd)) {
    close(fd);
    return {EACCES,
            path_ +
                " is a socket of another user, who would see all that this program sends; to trust "
                "him, name him in MPRDMA_DAEMON_UID"};
  }
  auto hello = new_message<Hello>(++last_serial_);
  hello.instance = instance_;
  hello.pid = static_cast<uint32_t>(getpid());
  if (has_device_) hello.first_generation = given_.first_generation;
  set_text(&hello.program, program_invocation_short_name);
  if (send_message(fd, hello) != 0 || !watch(epoll_fd_, fd)) {
    close(fd);
    return {EAGAIN, silent(path_)};
  }
  fd_ = fd;
  state_ = State::kGreeting;
  return {};
}

void DaemonLink::end(const char* text, Time now) {
  close_fd(&fd_);
  close_fd(&port_socket_);
  lost_requests_ = true;
  state_ = State::kNone;
  next_dial_ = now + kDialInterval;
  wire_up_.store(false, std::memory_order_relaxed);
  text_.store(text, std::memory_order_relaxed);
  restoring_.clear();
}

// The next answer is likely to be the same.
void DaemonLink::end_for_a_while(const char* text, Time now) {
  end(text, now);
  next_dial_ = now + kDialIntervalRefused;
}

void DaemonLink::on_port_up() {
  const std::lock_guard<std::mutex> guard(mutex_);
  // Of an end that the socket has told and the port has not, there is nothing to take back.
  if (state_ == State::kServed) away_ = false;
}

void DaemonLink::on_port_down(Time now) {
  away_ = true;
  const std::lock_guard<std::mutex> guard(mutex_);
  if (state_ == State::kNone) return;
  // A thread that waits for a reply may be polling the descriptor, so it is closed only after that
  // thread has left.
  if (waiting_) {
    shutdown(fd_, SHUT_RDWR);
  } else {
    end("mprdmad has closed the port; it is asked for another one", now);
  }
}

int DaemonLink::poll(Time now) {
  std::unique_lock<std::mutex> lock(mutex_);
  uint64_t rung = 0;
  (void)!read(bell_fd_, &rung, sizeof rung);
  if (!waiting_) {
    if (state_ == State::kNone && now >= next_dial_) {
      next_dial_ = now + kDialInterval;
      if (dial().ok()) welcome_until_ = now + kWelcomeTimeout;
    }
    if (state_ != State::kNone) read_all(now);
    if (state_ == State::kGreeting && now >= welcome_until_) {
      end("mprdmad does not answer; it is asked again", now);
    }
  }
  if (state_ != State::kServed) away_ = true;
  restore_ids();
  CmIds::Event event;
  mprdma_abi_cm_open where{};
  while (next_event(&event, &where)) {
    lock.unlock();
    where.on_event(where.context, &event.event);
    lock.lock();
  }
  follow_rings(now);
  const int socket = std::exchange(port_socket_, -1);
  if (socket >= 0) {
    // A number that another process may have now must not be found at the end of an old ring.
    if (block_ != given_) rings_->close_all();
    block_ = given_;
  }
  return socket;
}

// With both locks held.
void DaemonLink::follow_rings(Time now) {
  if (std::exchange(lost_requests_, false)) rings_->forget_requests();
  for (const uint32_t block : refusals_) rings_->on_refused(block, now);
  refusals_.clear();
  for (const OfferedRing& offer : offers_) rings_->on_offer(offer, now);
  offers_.clear();
}

RingState DaemonLink::ring_state(Qpn peer, bool ask) {
  const Time now = clock_now();
  const uint32_t block = block_of(peer);
  auto request = new_message<RingRequest>(0);
  request.block = block;
  if (ask && !away_ && rings_->want(block, now, &request.last_ring)) {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (state_ != State::kServed || send_message(fd_, request) != 0) rings_->on_refused(block, now);
  }
  return rings_->state(block, now);
}

void DaemonLink::read_all(Time now) {
  Incoming in;
  for (int i = 0; i < kMessagesPerRead && fd_ >= 0; ++i) {
    const int error = receive_message(fd_, &in);
    if (error == EAGAIN) return;
    if (error != 0) return end("waiting for mprdmad, which has gone", now);
    on_message(&in, now);
    close_elsewhere(in.passed_fd);
  }
}

void DaemonLink::on_message(Incoming* in, Time now) {
  Head head;
  const MessageFault fault = check_message(in->message(), &head);
  if (fault == MessageFault::kOtherVersion) {
    refusal_ = "mprdmad at " + path_ + " is of another version: use one installation for both";
    return end_for_a_while("mprdmad is of another version than this program's mprdma", now);
  }
  if (fault != MessageFault::kNone) return end("mprdmad has sent what makes no sense", now);
  switch (head.type) {
    case MessageType::kWelcome:
      return on_welcome(load_message<Welcome>(in->message()), std::exchange(in->passed_fd, -1),
                        now);
    case MessageType::kRefused:
      return on_refused(load_message<Refused>(in->message()), now);
    case MessageType::kCmReply:
      return on_reply(load_message<CmReply>(in->message()));
    case MessageType::kCmEvent:
      if (events_.size() >= kEventsMax) return;
      events_.push_back(load_message<CmEvent>(in->message()).event);
      return;
    case MessageType::kPortState: {
      const auto state = load_message<PortState>(in->message());
      wire_up_.store(state.device.link_up != 0, std::memory_order_relaxed);
      if (!same_device(state.device)) end("mprdmad has another address now: start anew", now);
      return;
    }
    case MessageType::kRingOffer: {
      const auto offer = load_message<RingOffer>(in->message());
      if (in->passed_fd < 0 || offers_.size() >= kBlocks) return;
      offers_.push_back(
          {offer.block, offer.ring, offer.same_user == 1, std::exchange(in->passed_fd, -1)});
      return;
    }
    case MessageType::kRingRefused:
      if (refusals_.size() < kBlocks) {
        refusals_.push_back(load_message<RingRefused>(in->message()).block);
      }
      return;
    default:
      return end("mprdmad has sent a message out of turn", now);
  }
}

void DaemonLink::on_refused(const Refused& refused, Time now) {
  refusal_ = std::string(text_of(refused.text));
  if (refusal_.empty()) refusal_ = "mprdmad refuses this process";
  end_for_a_while("mprdmad refuses this process; it is asked again", now);
}

// Queue pairs have its addresses, and frames are as long as its MTU lets them.
bool DaemonLink::same_device(const Device& device) const {
  return device.ipv4 == first_.ipv4 && device.mac == first_.mac && device.mtu >= first_.mtu &&
         device.can_corrupt == first_.can_corrupt;
}

void DaemonLink::on_welcome(const Welcome& welcome, int passed_fd, Time now) {
  const QpBlock block{welcome.first_generation, welcome.generations};
  if (state_ != State::kGreeting || passed_fd < 0 || !block.valid()) {
    if (passed_fd >= 0) close(passed_fd);
    return end("mprdmad has sent what makes no sense", now);
  }
  if (!has_device_) {
    has_device_ = true;
    first_ = welcome.device;
  } else if (!same_device(welcome.device)) {
    close(passed_fd);
    return end_for_a_while(
        "mprdmad has another address, MAC or MTU than before: start this program anew", now);
  }
  const bool anew = daemon_instance_ != 0;  // whatever it has been, it has forgotten the ids
  daemon_instance_ = welcome.instance;
  given_ = block;
  port_socket_ = passed_fd;
  state_ = State::kServed;
  wire_up_.store(welcome.device.link_up != 0, std::memory_order_relaxed);
  if (anew) ids_.on_restart();
  served_.notify_all();
}

// ---- The CM agent

int DaemonLink::cm_open(const mprdma_abi_client* client, const mprdma_abi_cm_open& open) {
  if (open.on_event == nullptr) return EINVAL;
  const std::lock_guard<std::mutex> guard(mutex_);
  for (const auto& [known, where] : opens_) {
    if (known == client) return EBUSY;
  }
  opens_.emplace_back(client, open);
  return 0;
}

void DaemonLink::cm_forget(const mprdma_abi_client* client) {
  const std::lock_guard<std::mutex> guard(mutex_);
  std::erase_if(opens_, [client](const auto& open) { return open.first == client; });
  ids_.forget(client, [this](uint32_t agents_id) { destroy_id(agents_id); });
}

// Sends a command without waiting for its reply.
void DaemonLink::destroy_id(uint32_t agents_id) {
  mprdma_abi_cm_command command{};
  command.op = MPRDMA_ABI_CM_DESTROY;
  command.id = agents_id;
  uint32_t ignored = 0;
  send_command(command, &ignored);
}

int DaemonLink::send_command(const mprdma_abi_cm_command& command, uint32_t* serial) {
  if (state_ != State::kServed) return ENOTCONN;
  if (++last_serial_ == 0) ++last_serial_;
  *serial = last_serial_;
  auto message = new_message<CmCommand>(last_serial_);
  message.command = command;
  return send_message(fd_, message);
}

int DaemonLink::cm_execute(const mprdma_abi_client* client, const mprdma_abi_cm_command& in,
                           mprdma_abi_cm_result* out) {
  const std::lock_guard<std::mutex> turn(commands_);
  std::unique_lock<std::mutex> lock(mutex_);
  *out = {};
  // A daemon that is being restarted is worth waiting for.
  const auto timeout = std::chrono::nanoseconds(kServedTimeout.count_ns());
  served_.wait_for(lock, timeout, [this] { return state_ == State::kServed; });
  mprdma_abi_cm_command command{};
  bool done = false;
  const int error = ids_.begin(client, in, &command, &done);
  if (error != 0 || done) {
    const uint64_t one = 1;
    if (done) (void)!write(bell_fd_, &one, sizeof one);  // it may have made events
    return error;
  }
  CmReply reply;
  if (!await_reply(command, &lock, &reply)) return ENOTCONN;
  *out = reply.result;
  ids_.on_reply(client, in, reply.error, out);
  return reply.error;
}

// Sends, and reads until the reply is there, the connection has gone, or it takes too long.
bool DaemonLink::await_reply(const mprdma_abi_cm_command& sent, std::unique_lock<std::mutex>* lock,
                             CmReply* reply) {
  const Time until = clock_now() + kReplyTimeout;
  int error = send_command(sent, &awaited_);
  waiting_ = error == 0 || error == EAGAIN;
  replied_ = false;
  Time now = clock_now();
  while (waiting_ && !replied_ && state_ == State::kServed && now < until) {
    if (error == EAGAIN) error = send_command(sent, &awaited_);
    pollfd wait{fd_, static_cast<short>(error == EAGAIN ? POLLIN | POLLOUT : POLLIN), 0};
    const auto left_ms = static_cast<int>((until - now).count_ns() / 1'000'000) + 1;
    lock->unlock();
    ::poll(&wait, 1, left_ms);
    lock->lock();
    now = clock_now();
    read_all(now);
  }
  waiting_ = false;
  const uint64_t one = 1;
  const bool news =
      !events_.empty() || !offers_.empty() || !refusals_.empty() || state_ != State::kServed;
  if (news) (void)!write(bell_fd_, &one, sizeof one);
  *reply = reply_;
  return std::exchange(replied_, false);
}

void DaemonLink::on_reply(const CmReply& reply) {
  if (waiting_ && reply.head.serial == awaited_) {
    reply_ = reply;
    replied_ = true;
    return;
  }
  const auto restoring = restoring_.find(reply.head.serial);
  if (restoring == restoring_.end()) return;  // of one that took too long, or that nobody waits for
  const uint32_t unwanted = ids_.on_restored(restoring->second, reply.error, reply.result);
  restoring_.erase(restoring);
  if (unwanted != 0) destroy_id(unwanted);
}

void DaemonLink::restore_ids() {
  if (state_ != State::kServed) return;
  uint32_t number = 0;
  uint32_t serial = 0;
  mprdma_abi_cm_command command;
  while (ids_.poll_restore(&number, &command)) {
    // A full socket: the connection is of no use to its ids, another one is.
    if (send_command(command, &serial) != 0) return end("mprdmad does not read", clock_now());
    restoring_[serial] = number;
  }
}

bool DaemonLink::next_event(CmIds::Event* out, mprdma_abi_cm_open* where) {
  for (;;) {
    if (!ids_.poll_event(out)) {
      if (events_.empty()) return false;
      uint32_t unwanted = 0;
      const bool ours = ids_.take(events_.front(), out, &unwanted);
      events_.pop_front();
      if (unwanted != 0) destroy_id(unwanted);
      if (!ours) continue;
    }
    for (const auto& [client, open] : opens_) {
      if (client != out->client) continue;
      *where = open;
      return true;
    }
  }
}

}  // namespace mprdma::dataplane::client
