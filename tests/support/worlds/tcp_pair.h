// SPDX-License-Identifier: Apache-2.0
// Links between threads, or between a link and bare sockets, over loopback.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "core/base/system/descriptor.h"
#include "core/base/time.h"
#include "ops/sockets/tcp_socket.h"
#include "ops/tcp/tcp_link.h"

namespace rueda {

inline const TcpAddress kTestAddress{"127.0.0.1", 0};

// Two connected sockets.
inline std::array<Descriptor, 2> tcp_pair() {
  const OpenedSocket listener = listen_at(kTestAddress);
  OpenedSocket one = connect_from(kTestAddress, address_of(listener.socket, kTestAddress));
  Descriptor other;
  const Time end = clock_now() + std::chrono::seconds(10);
  while (!other && clock_now() < end)
    other = Descriptor(::accept4(listener.socket.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  EXPECT_TRUE(other);
  for (const Descriptor* socket : {&one.socket, &other}) prepare_for_data(*socket, std::chrono::seconds(10));
  return {std::move(one.socket), std::move(other)};
}

// As both sides of one handshake have them.
inline std::array<RailKeys, 2> keys_for_tests(Cipher cipher) {
  const TcpSecret secret = random_key();
  const ExchangeKeys here = random_exchange_keys(), there = random_exchange_keys();
  const TcpHello hello = make_hello(secret, 0, 1, 0, 0, here.open);
  TcpAnswer answer = answer_to(hello, secret, there.open);
  answer.encrypted = cipher == Cipher::none ? 0 : 1;
  if (cipher != Cipher::none) answer.cipher = cipher;
  return {keys_of(HandshakeSide::connecting, hello, answer, secret, here).value(),
          keys_of(HandshakeSide::listening, hello, answer, secret, there).value()};
}

inline void connect_links(TcpLink& low, Rank low_rank, TcpLink& high, Rank high_rank, std::size_t rails,
                          Cipher cipher = Cipher::none) {
  std::vector<ConnectedRail> here, there;
  for (std::size_t rail = 0; rail < rails; ++rail) {
    auto [a, b] = tcp_pair();
    const auto [keys_here, keys_there] = keys_for_tests(cipher);
    here.push_back({std::move(a), keys_here});
    there.push_back({std::move(b), keys_there});
  }
  low.connect(high_rank, std::move(here));
  high.connect(low_rank, std::move(there));
}

// Ranks 0 and 1, connected.
struct LinkedPair {
  TcpLink zero{0};
  TcpLink one{1};

  explicit LinkedPair(std::size_t rails = 1, Cipher cipher = Cipher::none) {
    connect_links(zero, 0, one, 1, rails, cipher);
  }
};

// Purpose: passes on what comes at one socket to another, a little at a time. Owned by a test.
class SocketRelay {
 public:
  SocketRelay(Descriptor from, Descriptor to) : from_(std::move(from)), to_(std::move(to)) {}

  // `spoil` may change what comes.
  void step(const std::function<void(Bytes&)>& spoil = [](Bytes&) {}) {
    if (kept_.empty()) {
      kept_.resize(4096);
      const ssize_t came = ::recv(from_.number(), kept_.data(), kept_.size(), 0);
      kept_.resize(came > 0 ? static_cast<std::size_t>(came) : 0);
      if (came > 0) spoil(kept_);
    }
    if (kept_.empty()) return;
    const ssize_t put = ::send(to_.number(), kept_.data(), kept_.size(), MSG_NOSIGNAL);
    if (put > 0) kept_.erase(kept_.begin(), kept_.begin() + put);
  }

 private:
  Descriptor from_;
  Descriptor to_;
  Bytes kept_;
};

// Until `ready` is true; false when that takes too long.
inline bool wait_until(const std::function<bool()>& ready) {
  const Time end = clock_now() + std::chrono::seconds(120);  // under a sanitizer, on a busy machine
  while (!ready()) {
    if (clock_now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace rueda
