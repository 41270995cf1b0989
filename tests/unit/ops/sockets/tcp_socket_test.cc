// SPDX-License-Identifier: Apache-2.0
// Which congestion control connections have.
#include "ops/sockets/tcp_socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <string_view>

#include "tests/support/worlds/tcp_pair.h"

namespace rueda {
namespace {

using testing::AnyOf;
using testing::Not;
using testing::StartsWith;

// Whether a fresh socket may have it.
bool choose(const Descriptor& socket, std::string_view name) {
  return ::setsockopt(socket.number(), IPPROTO_TCP, TCP_CONGESTION, name.data(),
                      static_cast<socklen_t>(name.size())) == 0;
}

Descriptor fresh_socket() { return Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

TEST(TcpSocket, LeavesBbr) {
  const Descriptor socket = fresh_socket();
  if (!choose(socket, "bbr")) GTEST_SKIP() << "this system has no BBR, or not for this user";
  leave_bbr(socket);
  EXPECT_THAT(congestion_control(socket), AnyOf("cubic", "reno"));
}

TEST(TcpSocket, KeepsAnyOtherCongestionControl) {
  const Descriptor socket = fresh_socket();
  ASSERT_TRUE(choose(socket, "reno"));  // everybody may
  leave_bbr(socket);
  EXPECT_EQ(congestion_control(socket), "reno");
}

// Also where BBR is the system's own choice.
TEST(TcpSocket, NeitherSideOfAConnectionUsesBbr) {
  const auto [here, there] = tcp_pair();
  EXPECT_NE(congestion_control(here), "");
  for (const Descriptor* side : {&here, &there})
    EXPECT_THAT(congestion_control(*side), Not(StartsWith("bbr")));
}

}  // namespace
}  // namespace rueda
