// SPDX-License-Identifier: Apache-2.0
#include "ops/bootstrap/address/munge_address.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "core/base/time.h"
#include "ops/bootstrap/address/start_error.h"
#include "ops/munge/munge.h"
#include "ops/sockets/tcp_socket.h"

namespace rueda {
namespace {

using namespace std::chrono_literals;

constexpr auto kLongestVisit = 2s;  // of a rank at the endpoint, with the connection
constexpr std::size_t kLongestCredential = 16 << 10;

// Purpose: gives one text to all who connect, on a thread of its own that ends with the object. It reads
// nothing, and keeps no connection.
class CredentialServer {
 public:
  CredentialServer(std::vector<Descriptor> listeners, std::string credential)
      : listeners_(std::move(listeners)),
        credential_(std::move(credential)),
        end_(::eventfd(0, EFD_CLOEXEC)) {
    if (!end_) cannot_start("rank 0 has no descriptor left to publish its address; raise ulimit -n");
    thread_ = std::thread([this] { serve(); });
  }
  ~CredentialServer() {
    ::eventfd_write(end_.number(), 1);
    thread_.join();
  }
  CredentialServer(const CredentialServer&) = delete;
  CredentialServer& operator=(const CredentialServer&) = delete;

 private:
  void serve() {
    std::vector<pollfd> waits{{end_.number(), POLLIN, 0}};
    for (const Descriptor& listener : listeners_) waits.push_back({listener.number(), POLLIN, 0});
    while (true) {
      const int ready = ::poll(waits.data(), waits.size(), -1);
      if (ready < 0 && errno != EINTR) return;
      if (ready <= 0) continue;
      if (waits.front().revents != 0) return;
      for (const Descriptor& listener : listeners_) give(listener);
    }
  }

  // The credential fits into the memory of a fresh connection.
  void give(const Descriptor& listener) {
    const Descriptor guest(::accept4(listener.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!guest) {
      if (errno != EAGAIN) std::this_thread::sleep_for(10ms);  // no descriptor is left, perhaps
      return;
    }
    ::send(guest.number(), credential_.data(), credential_.size(), MSG_NOSIGNAL);
  }

  const std::vector<Descriptor> listeners_;
  const std::string credential_;
  const Descriptor end_;
  std::thread thread_;
};

bool wait_for(const Descriptor& socket, short events, Time end) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - clock_now());
  pollfd wait{socket.number(), events, 0};
  return left.count() > 0 && ::poll(&wait, 1, static_cast<int>(left.count())) > 0;
}

// All that the other side sends until it closes; nothing if nobody listens, or it takes too long.
std::optional<std::string> text_at(const TcpAddress& address) {
  const Time end = clock_now() + kLongestVisit;
  const OpenedSocket opened = connect_to(address);
  if (!opened.socket || !wait_for(opened.socket, POLLOUT, end) || connect_error(opened.socket) != 0)
    return std::nullopt;
  std::string text;
  std::array<char, 4096> buffer{};
  while (text.size() < kLongestCredential) {
    if (!wait_for(opened.socket, POLLIN, end)) return std::nullopt;
    const ssize_t count = ::recv(opened.socket.number(), buffer.data(), buffer.size(), 0);
    if (count == 0) return text;
    if (count < 0) return std::nullopt;
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  return std::nullopt;
}

class MungeAddress final : public RootAddress {
 public:
  MungeAddress(MungeEndpoint endpoint, std::vector<Descriptor> listeners)
      : endpoint_(std::move(endpoint)), listeners_(std::move(listeners)) {}

  void publish(const TcpEndpoint& endpoint) override {
    MungeText sealed = seal_by_munge(to_text(endpoint), endpoint_.socket);
    if (sealed.outcome != MungeText::Outcome::good) blame_munge(sealed);
    server_ = std::make_unique<CredentialServer>(std::move(listeners_), std::move(sealed.text));
  }
  // Somebody else's program may have the port by chance, or that of an older job: it is looked at again.
  std::optional<TcpEndpoint> look() override {
    for (const TcpAddress& address : addresses_of(endpoint_.host, endpoint_.port)) {
      const std::optional<std::string> text = text_at(address);
      if (!text || !may_be_of_munge(*text)) continue;
      const MungeText opened = open_by_munge(*text, endpoint_.socket);
      switch (opened.outcome) {
        case MungeText::Outcome::good: return endpoint_from_text(opened.text);
        case MungeText::Outcome::unreadable: break;
        case MungeText::Outcome::of_another_user: blame_user(opened);
        case MungeText::Outcome::no_munge: blame_munge(opened);
      }
    }
    return std::nullopt;
  }
  void retire() override { server_.reset(); }
  std::string in_words() const override {
    return fmt::format("{}:{}, where rank 0 gives a credential of munge", endpoint_.host, endpoint_.port);
  }

 private:
  [[noreturn]] static void blame_munge(const MungeText& answer) {
    cannot_start(
        fmt::format("munge on this host does not work any more: {}. Set RUEDA_SECRET to the same random text "
                    "on every rank, "
                    "or start munged.",
                    answer.why));
  }
  [[noreturn]] void blame_user(const MungeText& answer) const {
    cannot_start(fmt::format(
        "at {}:{} is a job of another user: {}. A job's ranks belong to one user; if the port is taken by "
        "chance, name another by RUEDA_STORE=HOST:PORT.",
        endpoint_.host, endpoint_.port, answer.why));
  }

  const MungeEndpoint endpoint_;
  std::vector<Descriptor> listeners_;  // until they are the server's
  std::unique_ptr<CredentialServer> server_;
};

}  // namespace

std::unique_ptr<RootAddress> address_by_munge(MungeEndpoint endpoint, std::vector<Descriptor> listeners) {
  return std::make_unique<MungeAddress>(std::move(endpoint), std::move(listeners));
}

}  // namespace rueda
