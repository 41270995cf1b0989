// SPDX-License-Identifier: Apache-2.0
#include "ops/sockets/tcp_socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

namespace rueda {
namespace {

constexpr int kMostUnsent = 256 << 10;  // bytes that wait in a socket

constexpr int kRtoMaxMs = 44;  // TCP_RTO_MAX_MS of Linux 6.15; C libraries do not name it yet

void set(const Descriptor& socket, int level, int option, int value) {
  // A kernel that does not know the option goes without it.
  static_cast<void>(::setsockopt(socket.number(), level, option, &value, sizeof value));
}

// Bound to the address; port 0 is any port.
OpenedSocket open_at(const TcpAddress& own, bool connects) {
  const std::optional<SocketAddress> address = socket_address(own);
  if (!address) return {Descriptor(), EINVAL};
  OpenedSocket opened{
      Descriptor(::socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0))};
  if (!opened.socket) return {Descriptor(), errno};
  leave_bbr(opened.socket);
  if (connects) set(opened.socket, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
  if (own.port != 0) set(opened.socket, SOL_SOCKET, SO_REUSEADDR, 1);
  if (::bind(opened.socket.number(), address->get(), address->length) != 0) return {Descriptor(), errno};
  return opened;
}

}  // namespace

std::string_view remedy_for_open_files(int error) {
  if (error == EMFILE) return "Raise the limit of open files (ulimit -n)";
  if (error == ENFILE) return "Raise the limit of open files of the system (sysctl fs.file-max)";
  return {};
}

OpenedSocket listen_at(const TcpAddress& own) {
  OpenedSocket opened = open_at(own, false);
  if (opened.socket && ::listen(opened.socket.number(), SOMAXCONN) != 0) return {Descriptor(), errno};
  return opened;
}

OpenedSocket connect_from(const TcpAddress& own, const TcpAddress& theirs) {
  const std::optional<SocketAddress> address = socket_address(theirs);
  if (!address) return {Descriptor(), EINVAL};
  OpenedSocket opened = open_at({own.host, 0}, true);
  if (opened.socket && ::connect(opened.socket.number(), address->get(), address->length) != 0 &&
      errno != EINPROGRESS)
    return {Descriptor(), errno};
  return opened;
}

OpenedSocket connect_to(const TcpAddress& theirs) {
  const bool v6 = theirs.host.find(':') != std::string::npos;
  return connect_from({v6 ? "::" : "0.0.0.0", 0}, theirs);
}

TcpAddress address_of(const Descriptor& listening, const TcpAddress& own) {
  SocketAddress bound;
  bound.length = sizeof bound.storage;
  ::getsockname(listening.number(), reinterpret_cast<sockaddr*>(&bound.storage), &bound.length);
  return {own.host, bound.port()};
}

std::string own_card(const Descriptor& connected) {
  SocketAddress own;
  own.length = sizeof own.storage;
  if (::getsockname(connected.number(), reinterpret_cast<sockaddr*>(&own.storage), &own.length) != 0)
    return "";
  return card_name(in_digits(own));
}

int connect_error(const Descriptor& socket) {
  pollfd look{socket.number(), POLLOUT, 0};
  if (::poll(&look, 1, 0) <= 0) return EINPROGRESS;
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(socket.number(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
  return error;
}

// A process that may not use cubic, or lacks it, always has reno.
void leave_bbr(const Descriptor& socket) {
  if (!congestion_control(socket).starts_with("bbr")) return;
  for (const std::string_view other : {"cubic", "reno"}) {
    const auto size = static_cast<socklen_t>(other.size());
    if (::setsockopt(socket.number(), IPPROTO_TCP, TCP_CONGESTION, other.data(), size) == 0) return;
  }
}

std::string congestion_control(const Descriptor& socket) {
  std::array<char, 16> name{};  // TCP_CA_NAME_MAX
  socklen_t size = name.size();
  if (::getsockopt(socket.number(), IPPROTO_TCP, TCP_CONGESTION, name.data(), &size) != 0) return "";
  return {name.data(), ::strnlen(name.data(), name.size())};
}

void prepare_for_data(const Descriptor& socket, Duration deadline) {
  const auto limit =
      static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(deadline).count());
  const int part = std::max(1, limit / 5000);  // seconds
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, kMostUnsent);
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, limit);
  set(socket, IPPROTO_TCP, kRtoMaxMs, 1000);  // a cable that is back is noticed within a second
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, part);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, part);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, 4);
}

}  // namespace rueda
