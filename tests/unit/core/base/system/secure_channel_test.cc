// SPDX-License-Identifier: Apache-2.0
// The handshake of two processes of one job, and what strangers and damage do to it.
#include "core/base/system/secure_channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <random>
#include <string>

namespace rueda {
namespace {

using testing::HasSubstr;
using State = SecureChannel::State;

constexpr std::size_t kLongest = 100'000;

Bytes bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::array<Descriptor, 2> socket_pair() {
  std::array<int, 2> ends{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

// Both ends of one connection, with a key each.
struct Ends {
  std::array<Descriptor, 2> sockets = socket_pair();
  SecureChannel caller, host;

  Ends(const AuthenticationKey& callers, const AuthenticationKey& hosts)
      : caller(SecureChannel::connect(std::move(sockets[0]), callers, bytes_of("rank 3"), kLongest)),
        host(SecureChannel::accept(std::move(sockets[1]), hosts, kLongest)) {}

  void meet() {
    for (int i = 0; i < 4; ++i) {
      host.progress();
      caller.progress();
    }
  }
};

// All bytes that have come at a raw socket.
Bytes drain(const Descriptor& socket) {
  Bytes bytes(1 << 20);
  const ssize_t count = ::recv(socket.number(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  bytes.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return bytes;
}

void feed(const Descriptor& socket, ConstBytes bytes) {
  EXPECT_EQ(::send(socket.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
}

TEST(SecureChannel, MessagesGoBothWaysInOrder) {
  const AuthenticationKey key = random_key();
  Ends ends(key, key);
  ends.meet();
  ASSERT_EQ(ends.caller.state(), State::open);
  ASSERT_EQ(ends.host.state(), State::open);
  EXPECT_TRUE(std::ranges::equal(ends.host.introduction(), bytes_of("rank 3")));
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    const Bytes there(random() % 70'000, static_cast<std::byte>(i)),
        back(random() % 100, static_cast<std::byte>(~i));
    ends.caller.send(there);
    ends.host.send(back);
    std::optional<Bytes> a, b;
    for (int tries = 0; tries < 1000 && !(a && b); ++tries) {
      ends.host.progress();
      ends.caller.progress();
      if (!a) a = ends.host.take();
      if (!b) b = ends.caller.take();
    }
    ASSERT_EQ(a, there);
    ASSERT_EQ(b, back);
  }
}

TEST(SecureChannel, AStrangerIsRefusedByBothSides) {
  Ends ends(random_key(), random_key());
  ends.meet();
  EXPECT_EQ(ends.caller.state(), State::closed);
  EXPECT_THAT(std::string(ends.caller.refusal()), HasSubstr("does not know the key"));
  EXPECT_EQ(ends.host.state(), State::closed);
}

TEST(SecureChannel, WhatWasSentBeforeTheEndArrives) {
  const AuthenticationKey key = random_key();
  Ends ends(key, key);
  ends.meet();
  ends.caller.send(bytes_of("last words"));
  ends.caller.close();
  ends.host.progress();
  EXPECT_EQ(ends.host.take(), bytes_of("last words"));
  ends.host.progress();
  EXPECT_FALSE(ends.host.take());
  EXPECT_EQ(ends.host.state(), State::closed);
  EXPECT_TRUE(ends.host.refusal().empty());
}

// A relay between both ends sees and may change everything.
TEST(SecureChannel, ARelayReadsNothingAndChangesNothingUnnoticed) {
  for (const bool changes : {false, true}) {
    const AuthenticationKey key = random_key();
    auto [caller_end, relay_to_caller] = socket_pair();
    auto [host_end, relay_to_host] = socket_pair();
    SecureChannel caller = SecureChannel::connect(std::move(caller_end), key, {}, kLongest);
    SecureChannel host = SecureChannel::accept(std::move(host_end), key, kLongest);
    for (int i = 0; i < 4; ++i) {
      caller.progress();
      feed(relay_to_host, drain(relay_to_caller));
      host.progress();
      feed(relay_to_caller, drain(relay_to_host));
    }
    ASSERT_EQ(host.state(), State::open);
    const std::string secret = "the loss is 0.125, and nobody else should know";
    caller.send(bytes_of(secret));
    Bytes passing = drain(relay_to_caller);
    const std::string seen(reinterpret_cast<const char*>(passing.data()), passing.size());
    EXPECT_EQ(seen.find(secret.substr(4, 8)), std::string::npos);
    if (changes) passing.back() ^= std::byte{1};
    feed(relay_to_host, passing);
    host.progress();
    const std::optional<Bytes> came = host.take();
    EXPECT_EQ(came.has_value(), !changes);
    if (changes) EXPECT_THAT(std::string(host.refusal()), HasSubstr("changed on its way"));
    if (changes) continue;
    feed(relay_to_host, passing);  // once more
    host.progress();
    EXPECT_FALSE(host.take());
    EXPECT_EQ(host.state(), State::closed);
  }
}

TEST(SecureChannel, ARecordedConnectionCannotBeRepeated) {
  const AuthenticationKey key = random_key();
  auto [caller_end, relay_to_caller] = socket_pair();
  auto [host_end, relay_to_host] = socket_pair();
  SecureChannel caller = SecureChannel::connect(std::move(caller_end), key, {}, kLongest);
  SecureChannel host = SecureChannel::accept(std::move(host_end), key, kLongest);
  Bytes recorded;
  for (int i = 0; i < 4; ++i) {
    caller.progress();
    const Bytes said = drain(relay_to_caller);
    recorded.insert(recorded.end(), said.begin(), said.end());
    feed(relay_to_host, said);
    host.progress();
    feed(relay_to_caller, drain(relay_to_host));
  }
  ASSERT_EQ(host.state(), State::open);
  auto [again_end, again] = socket_pair();
  SecureChannel second = SecureChannel::accept(std::move(again_end), key, kLongest);
  feed(again, recorded);
  for (int i = 0; i < 4; ++i) second.progress();
  EXPECT_EQ(second.state(), State::closed);
}

TEST(SecureChannel, GarbageOfAnyKindIsRefused) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    auto [host_end, stranger] = socket_pair();
    SecureChannel host = SecureChannel::accept(std::move(host_end), random_key(), kLongest);
    Bytes garbage(random() % 2000);
    for (std::byte& byte : garbage) byte = static_cast<std::byte>(round % 3 == 0 ? 0 : random());
    if (garbage.empty() || ::send(stranger.number(), garbage.data(), garbage.size(), MSG_NOSIGNAL) < 0)
      continue;
    for (int i = 0; i < 4; ++i) host.progress();
    EXPECT_FALSE(host.take());
    // A length and less than that many bytes are waited for.
    if (garbage.size() > 600) EXPECT_EQ(host.state(), State::closed) << round;
    EXPECT_NE(host.state(), State::open);
    stranger.close();
    for (int i = 0; i < 4; ++i) host.progress();
    EXPECT_EQ(host.state(), State::closed) << round;
  }
}

}  // namespace
}  // namespace rueda
