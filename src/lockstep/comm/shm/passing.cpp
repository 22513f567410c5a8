// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/shm/passing.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <span>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/comm/shm/member.h"

namespace lockstep::comm::shm {

namespace {

using Clock = std::chrono::steady_clock;
constexpr int kMostDescriptors = 250;  // the system passes 253 in one message
constexpr std::uint32_t kGreeting = 0x6c736d31;

struct Message {
  std::uint32_t greeting = kGreeting;
  std::int32_t rank = 0;
};

[[noreturn]] void throw_system(std::string problem) {
  throw Error({.fault = Fault::Environment,
               .where = {.subject = "shared memory"},
               .problem = std::move(problem),
               .cause = std::strerror(errno),
               .next = "Raise the number of open files (ulimit -n), or set comm.backend = gloo"});
}

// Tells when to give up; asked between short naps.
class Deadline {
 public:
  explicit Deadline(const Patience& patience)
      : patience_(patience), end_(Clock::now() + patience.timeout) {}
  void check(const std::string& waiting_for) const {
    if (patience_.stop && patience_.stop())
      throw Stopped();
    if (Clock::now() <= end_)
      return;
    const double seconds = std::chrono::duration<double>(patience_.timeout).count();
    throw Error({.fault = Fault::Peer,
                 .where = {.subject = "shared memory"},
                 .problem = cat(waiting_for, " did not come within ", human_seconds(seconds)),
                 .next = "Look at what it does there, or raise comm.timeout_seconds"});
  }
  void wait_readable(int fd, const std::string& waiting_for) const {
    pollfd wanted{.fd = fd, .events = POLLIN, .revents = 0};
    while (::poll(&wanted, 1, 20) <= 0)
      check(waiting_for);
  }

 private:
  const Patience& patience_;
  Clock::time_point end_;
};

std::string random_name() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw_system("cannot draw a name for a socket");
  std::string name = "lockstep-";
  for (const unsigned char byte : bytes) {
    name += "0123456789abcdef"[byte >> 4U];
    name += "0123456789abcdef"[byte & 15U];
  }
  return name;
}

struct Address {
  sockaddr_un at{};
  socklen_t length = 0;
};

// The leading zero makes it abstract.
Address address_of(const std::string& name) {
  Address address;
  address.at.sun_family = AF_UNIX;
  const std::size_t size = std::min(name.size(), sizeof address.at.sun_path - 1);
  std::memcpy(address.at.sun_path + 1, name.data(), size);
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size);
  return address;
}

Descriptor make_socket() {
  Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (socket.get() < 0)
    throw_system("cannot make a socket");
  return socket;
}

void send_message(int socket, Message message, std::span<const int> descriptors) {
  iovec content{.iov_base = &message, .iov_len = sizeof message};
  std::vector<char> control(CMSG_SPACE(sizeof(int) * descriptors.size()));
  msghdr header{};
  header.msg_iov = &content;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  cmsghdr* passed = CMSG_FIRSTHDR(&header);
  passed->cmsg_level = SOL_SOCKET;
  passed->cmsg_type = SCM_RIGHTS;
  passed->cmsg_len = CMSG_LEN(sizeof(int) * descriptors.size());
  std::memcpy(CMSG_DATA(passed), descriptors.data(), sizeof(int) * descriptors.size());
  if (::sendmsg(socket, &header, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof message))
    throw_system("cannot pass shared memory to another rank");
}

struct Received {
  Message message;
  std::vector<Descriptor> descriptors;
};

// None: the other side closed, or is no rank.
std::optional<Received> receive_message(int socket) {
  Received received;
  iovec content{.iov_base = &received.message, .iov_len = sizeof received.message};
  std::vector<char> control(CMSG_SPACE(sizeof(int) * (kMostDescriptors + 1)));
  msghdr header{};
  header.msg_iov = &content;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  const ssize_t bytes = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  const cmsghdr* passed = bytes > 0 ? CMSG_FIRSTHDR(&header) : nullptr;
  if (passed != nullptr && passed->cmsg_type == SCM_RIGHTS) {
    std::vector<int> fds((passed->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    std::memcpy(fds.data(), CMSG_DATA(passed), fds.size() * sizeof(int));
    for (const int fd : fds)
      received.descriptors.emplace_back(fd);
  }
  const bool whole = bytes == static_cast<ssize_t>(sizeof received.message) &&
                     received.message.greeting == kGreeting && (header.msg_flags & MSG_CTRUNC) == 0;
  return whole ? std::optional(std::move(received)) : std::nullopt;
}

bool same_user(int socket) {
  ucred other{};
  socklen_t length = sizeof other;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &other, &length) == 0 &&
         other.uid == ::geteuid();
}

Descriptor duplicate(int fd) {
  Descriptor copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (copy.get() < 0)
    throw_system("cannot keep shared memory");
  return copy;
}

Shared serve(const Passing& passing, const Deadline& deadline) {
  Shared shared{.block = passing.make_block(),
                .heaps = std::vector<Descriptor>(static_cast<std::size_t>(passing.ranks))};
  shared.heaps[0] = duplicate(passing.heap);
  const std::string name = random_name();
  const Address address = address_of(name);
  const Descriptor listener = make_socket();
  if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address.at), address.length) != 0 ||
      ::listen(listener.get(), passing.ranks) != 0) {
    throw_system("cannot listen on a socket");
  }
  passing.publish(name);
  std::vector<Descriptor> clients;
  while (static_cast<int>(clients.size()) + 1 < passing.ranks) {
    deadline.wait_readable(listener.get(),
                           cat("only ",
                               clients.size() + 1,
                               " of ",
                               passing.ranks,
                               " ranks came; "
                               "the next one"));
    Descriptor client(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (client.get() < 0 || !same_user(client.get()))
      continue;
    deadline.wait_readable(client.get(), "the greeting of a rank");
    auto greeting = receive_message(client.get());
    const int rank = greeting ? greeting->message.rank : 0;
    if (rank <= 0 || rank >= passing.ranks || greeting->descriptors.size() != 1)
      continue;
    shared.heaps[static_cast<std::size_t>(rank)] = std::move(greeting->descriptors[0]);
    clients.push_back(std::move(client));
  }
  std::vector<int> all = {shared.block.get()};
  for (const Descriptor& heap : shared.heaps)
    all.push_back(heap.get());
  for (const Descriptor& client : clients)
    send_message(client.get(), {}, all);
  return shared;
}

Shared ask(const Passing& passing, const Deadline& deadline) {
  std::optional<std::string> name;
  while (!(name = passing.look_up())) {
    deadline.check("group rank 0");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const Address address = address_of(*name);
  const Descriptor socket = make_socket();
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address.at), address.length) != 0)
    throw_system("cannot reach the socket of group rank 0");
  send_message(socket.get(), {.rank = passing.rank}, std::array{passing.heap});
  deadline.wait_readable(socket.get(), "the shared memory of group rank 0");
  auto answer = receive_message(socket.get());
  if (!answer || answer->descriptors.size() != static_cast<std::size_t>(passing.ranks) + 1)
    throw_system("group rank 0 left before it passed the shared memory");
  Shared shared{.block = std::move(answer->descriptors[0]), .heaps = {}};
  for (std::size_t i = 1; i < answer->descriptors.size(); ++i)
    shared.heaps.push_back(std::move(answer->descriptors[i]));
  return shared;
}

}  // namespace

Shared pass_descriptors(const Passing& passing) {
  if (passing.ranks > kMostDescriptors) {
    throw Error({.fault = Fault::Config,
                 .where = {.subject = "comm.backend"},
                 .problem = cat("shared memory takes at most ", kMostDescriptors, " ranks"),
                 .found = cat(passing.ranks),
                 .next = "Set comm.backend = gloo"});
  }
  const Deadline deadline(passing.patience);
  return passing.rank == 0 ? serve(passing, deadline) : ask(passing, deadline);
}

}  // namespace lockstep::comm::shm
