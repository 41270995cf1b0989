// SPDX-License-Identifier: Apache-2.0
#include "launcher/page/page_socket.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/base/number.h"
#include "launcher/system/processes.h"

namespace rueda {
namespace {

constexpr int kWaiting = 64;                                // clients at a time
constexpr const char* kHandedSocket = "RUEDA_PAGE_SOCKET";  // "IDENTITY MACHINE"

[[noreturn]] void cannot_listen(int error) {
  throw std::system_error(error != 0 ? error : EADDRNOTAVAIL, std::generic_category());
}

void set_option(const Descriptor& socket, int level, int name, int value) {
  ::setsockopt(socket.number(), level, name, &value, sizeof value);
}

std::string address_remedy(int error) {
  return error == EADDRNOTAVAIL ? "name an address of this machine"
                                : "name another port, or 0 for a free one";
}

// Two programs must not share a port; one may have it at once after another.
Descriptor listen_on(const addrinfo& address) {
  Descriptor socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return {};
  set_option(socket, SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.ai_family == AF_INET6) set_option(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (::bind(socket.number(), address.ai_addr, address.ai_addrlen) != 0) return {};
  if (::listen(socket.number(), kWaiting) != 0) return {};
  return socket;
}

// None where the path is too long for it.
std::optional<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  if (path.size() >= sizeof name.sun_path) return std::nullopt;
  path.copy(name.sun_path, path.size());
  return name;
}

bool is_listening(int number) {
  int answer = 0;
  socklen_t length = sizeof answer;
  return ::getsockopt(number, SOL_SOCKET, SO_ACCEPTCONN, &answer, &length) == 0 && answer != 0;
}

std::optional<PageSocket>& received() {
  static std::optional<PageSocket> socket;
  return socket;
}

}  // namespace

PageSocket listen_on_port(const std::string& host, int port) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* first = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &first))
    throw UnknownHost(fmt::format("host '{}' is not found ({})", host, ::gai_strerror(error)));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(first, ::freeaddrinfo);
  int error = 0;
  for (const addrinfo* address = first; address != nullptr; address = address->ai_next) {
    if (Descriptor socket = listen_on(*address)) return {std::move(socket), host_name()};
    error = errno;
  }
  cannot_listen(error);
}

Descriptor listen_on_path(const std::string& path) {
  std::optional<sockaddr_un> name = address_of(path);
  if (!name) cannot_listen(ENAMETOOLONG);
  addrinfo address{};
  address.ai_family = AF_UNIX;
  address.ai_addr = reinterpret_cast<sockaddr*>(&*name);
  address.ai_addrlen = sizeof *name;
  Descriptor socket = listen_on(address);
  if (!socket) cannot_listen(errno);
  return socket;
}

bool is_listening_on(const std::string& path) {
  const std::optional<sockaddr_un> name = address_of(path);
  if (!name) return false;
  const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return ::connect(socket.number(), reinterpret_cast<const sockaddr*>(&*name), sizeof *name) == 0 ||
         errno == EAGAIN;
}

int port_of(const PageSocket& socket) {
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  ::getsockname(socket.listening.number(), reinterpret_cast<sockaddr*>(&bound), &length);
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port
                                           : reinterpret_cast<sockaddr_in*>(&bound)->sin_port);
}

std::optional<PageSocket> page_socket(const LaunchOptions& options) {
  const LaunchOptions::Page& page = options.page;
  try {
    return listen_on_port(page.host, page.port);
  } catch (const UnknownHost& unknown) {
    if (!page.is_given) return std::nullopt;
    throw UsageError(fmt::format("--page: {}", unknown.what()));
  } catch (const std::system_error& error) {
    if (!page.is_given) return std::nullopt;
    throw UsageError(fmt::format("--page: cannot use {}:{} ({}); {}", page.host, page.port,
                                 error.code().message(), address_remedy(error.code().value())));
  }
}

void hand_on_page_socket(const LaunchOptions& options) {
  if (!options.page.is_wanted) return;
  const std::optional<PageSocket> socket = page_socket(options);
  if (!socket) return;
  // Under a low number the shells on the way would take it for one of their own.
  static Descriptor heir;  // lives until this process is replaced
  heir = high_copy_of(socket->listening);
  if (!heir) return;
  ::fcntl(heir.number(), F_SETFD, 0);
  ::setenv(kHandedSocket, fmt::format("{} {}", identity_of(heir.number()), socket->machine).c_str(), 1);
}

void receive_page_socket() {
  const char* set = std::getenv(kHandedSocket);
  if (set == nullptr) return;
  const std::string text = set;
  ::unsetenv(kHandedSocket);
  const std::string identity = text.substr(0, text.find(' '));
  const int number = number_from<int>(std::string_view(text).substr(0, text.find(':'))).value_or(-1);
  if (number <= STDERR_FILENO || identity_of(number) != identity || !is_listening(number)) return;
  ::fcntl(number, F_SETFD, FD_CLOEXEC);
  received() = PageSocket{Descriptor(number), text.substr(std::min(identity.size() + 1, text.size()))};
}

std::optional<PageSocket> handed_page_socket() { return std::exchange(received(), std::nullopt); }

}  // namespace rueda
