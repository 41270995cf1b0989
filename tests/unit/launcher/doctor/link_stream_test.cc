// SPDX-License-Identifier: Apache-2.0
// The measured rate is that at which bytes come.
#include "launcher/doctor/link_stream.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <thread>
#include <utility>
#include <vector>

namespace rueda {
namespace {

using namespace std::chrono_literals;

std::pair<Descriptor, Descriptor> connected() {
  std::array<int, 2> ends{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

TEST(LinkStream, IsMeasuredAtItsReceiver) {
  const auto [a, b] = connected();
  bool sent = false;
  std::jthread sender([&, &a = a] { sent = send_for(a, 50ms); });
  const std::optional<std::uint64_t> rate = receive_for(b, 50ms);
  sender.join();
  EXPECT_TRUE(sent);
  ASSERT_TRUE(rate);
  EXPECT_GT(*rate, 1'000'000u);
}

// A sender that waits 5 ms before each chunk of 64 KiB stays below 13.1 MB/s, on any machine.
TEST(LinkStream, ASlowSenderHasALowRate) {
  const auto [a, b] = connected();
  std::jthread sender([&a = a] {
    std::vector<std::byte> chunk(64 << 10);
    chunk.front() = std::byte{1};
    for (int i = 0; i < 20; ++i) {
      std::this_thread::sleep_for(5ms);
      send_all(a, chunk, std::chrono::steady_clock::now() + 5s);
    }
    send_all(a, std::array{std::byte{0}}, std::chrono::steady_clock::now() + 5s);
  });
  const std::optional<std::uint64_t> rate = receive_for(b, 100ms);
  ASSERT_TRUE(rate);
  EXPECT_LT(*rate, 15'000'000u);
  EXPECT_GT(*rate, 100'000u);
}

TEST(LinkStream, OneThatEndsEarlyHasNoRate) {
  auto [a, b] = connected();
  EXPECT_TRUE(send_all(a, std::array{std::byte{1}, std::byte{2}}, std::chrono::steady_clock::now() + 1s));
  a.close();
  EXPECT_FALSE(receive_for(b, 10ms));
  EXPECT_FALSE(send_for(b, 10ms));
}

// After the time and 2 s, as a sender gives up its receiver.
TEST(LinkStream, ASilentSenderIsGivenUp) {
  const auto [a, b] = connected();
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(receive_for(b, 10ms));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 2s);
}

TEST(LinkStream, WaitsNoLongerThanAllowed) {
  const auto [a, b] = connected();
  std::array<std::byte, 1> byte{};
  EXPECT_FALSE(receive_all(b, byte, std::chrono::steady_clock::now() + 10ms));
  const std::vector<std::byte> much(8 << 20);
  EXPECT_FALSE(send_all(a, much, std::chrono::steady_clock::now() + 10ms));
}

}  // namespace
}  // namespace rueda
