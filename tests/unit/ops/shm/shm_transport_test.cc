// SPDX-License-Identifier: Apache-2.0
// Control messages between ranks of a host, and whether there are any.
#include "ops/shm/shm_transport.h"

#include <gtest/gtest.h>

#include "core/control/messages/control_message.h"

namespace rueda {
namespace {

// Purpose: rank 0, which leads the host, and rank 1.
class ShmTransportTest : public testing::Test {
 protected:
  ShmTransportTest() {
    const auto first = std::make_shared<LocalPeers>(0, Segment::make().segment);
    const auto second = std::make_shared<LocalPeers>(1, Segment::make().segment);
    const Welcome welcome{{}, {"here", "here"}, {1, 2}, {first->peer_info(), second->peer_info()}};
    first->connect(welcome);
    second->connect(welcome);
    leader_ = std::make_unique<ShmTransport>(first);
    member_ = std::make_unique<ShmTransport>(second);
    leader_->connect(0);
    member_->connect(1);
  }

  std::unique_ptr<ShmTransport> leader_, member_;
};

TEST_F(ShmTransportTest, IsQuietUntilSomethingComes) {
  EXPECT_TRUE(leader_->quiet() && member_->quiet());
  member_->send(0, Bytes(100));
  EXPECT_FALSE(leader_->quiet());
  EXPECT_TRUE(member_->quiet());
  EXPECT_EQ(leader_->receive()->bytes.size(), 100u);
  EXPECT_FALSE(leader_->receive());
  EXPECT_TRUE(leader_->quiet());
  leader_->send(1, Bytes(1));
  EXPECT_FALSE(member_->quiet());
}

TEST_F(ShmTransportTest, IsNotQuietWhileALongMessageIsOnItsWay) {
  const std::size_t length = 2 * ByteRing::kBytes + 5;
  member_->send(0, Bytes(length));
  EXPECT_FALSE(member_->quiet()) << "a part waits";
  EXPECT_FALSE(leader_->receive()) << "a part has come";
  EXPECT_TRUE(leader_->quiet()) << "until more comes";
  std::optional<Envelope> received;
  for (int looks = 0; !received && looks < 10; ++looks) {
    EXPECT_FALSE(member_->receive());  // moves on what waits
    EXPECT_FALSE(leader_->quiet());
    received = leader_->receive();
  }
  ASSERT_TRUE(received);
  EXPECT_EQ(received->bytes.size(), length);
  EXPECT_TRUE(leader_->quiet() && member_->quiet());
}

}  // namespace
}  // namespace rueda
