// SPDX-License-Identifier: Apache-2.0
// Which message may be sent, and where one that comes belongs.
#pragma once

#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ops/tcp/frame.h"
#include "ops/tcp/message.h"

namespace rueda {

// Purpose: both directions of the link to one peer, without its sockets. A posted receive grants its message.
// A message is sent once it has its grant, so that nothing waits behind a message that nobody wants yet.
// Short messages go ahead of their grants, as long as those without one are few bytes. Both sides count
// messages of a tag alike: each grant belongs to the first message that has none, sent ahead or not. An eager
// message tells how many of our frames its sender had handled. So the first receive granted later and not yet
// taken is its own. State of a tag stays only while something of it is pending. A forbidden act of a peer is
// a LinkFailure. Owned by a TcpPeer.
class FlowControl {
 public:
  FlowControl(Rank rank, Rank peer) : rank_(rank), peer_(peer) {}

  void send(std::shared_ptr<Outgoing> message);
  void receive(std::shared_ptr<Incoming> message);

  // A grant, or an eager message with its bytes, in whatever order they come over several rails.
  void take(const Frame& frame, std::shared_ptr<Incoming> body);
  // Of a data frame: the message it is of. Then, when all its bytes are there.
  std::shared_ptr<Incoming> message_of(const Frame& data);
  void arrived(const Frame& data, Incoming& message);

  // Grants and eager messages that are to be sent, and the messages that have left when they are.
  struct Control {
    Bytes frames;
    std::vector<std::shared_ptr<Outgoing>> messages;
  };
  bool has_control() const { return !control_.frames.empty(); }
  // Whether somebody may wait for them; short messages seldom wait for their grants, until many are missing.
  bool urgent() const { return urgent_ || control_.frames.size() > kMostGrants * sizeof(FrameBytes); }
  Control take_control() {
    urgent_ = false;
    return std::exchange(control_, {});
  }

  // The next part of a message for a rail to send.
  struct Fragment {
    std::shared_ptr<Outgoing> message;
    Frame frame;
  };
  bool has_fragment() const { return !granted_.empty(); }
  // The rest of the message that is next; there must be one.
  std::size_t next_bytes() const { return granted_.front()->bytes.size() - granted_.front()->claimed; }
  std::optional<Fragment> next_fragment(std::size_t longest);

  // Bytes without a grant that may be on their way or wait here, headers included.
  static constexpr std::size_t kMostAhead = 1 << 20;
  // Grants that are held back at most.
  static constexpr std::size_t kMostGrants = 16;
  // Frames that may be ahead of their turn, and grants that may wait for messages.
  static constexpr std::size_t kMostWaiting = 1 << 16;

 private:
  struct Grant {
    std::uint64_t sequence = 0;
    std::uint64_t room = 0;
  };
  // Lists: an empty one costs nothing, and most tags have one message.
  struct Tagged {
    std::list<std::shared_ptr<Outgoing>> sends;     // without a grant, not sent ahead
    std::list<Grant> grants;                        // without a message
    std::list<std::size_t> ahead;                   // bytes of each message sent ahead of its grant
    std::list<std::shared_ptr<Incoming>> receives;  // of which nothing has come
    std::list<std::shared_ptr<Incoming>> early;     // have come before their receives
    std::size_t expected = 0;                       // receives whose messages are not all here
    bool empty() const {
      return sends.empty() && grants.empty() && ahead.empty() && early.empty() && expected == 0;
    }
  };
  struct Held {
    Frame frame;
    std::shared_ptr<Incoming> body;
  };

  void handle(const Frame& frame, std::shared_ptr<Incoming> body);
  void take_grant(Tagged& tagged, const Frame& frame);
  void take_eager(Tagged& tagged, std::uint64_t handled_there, std::shared_ptr<Incoming> body);
  void match(std::shared_ptr<Outgoing> message, const Grant& grant);
  void send_ahead(Tagged& tagged, std::shared_ptr<Outgoing> message);
  void end_expected(std::uint64_t sequence, Tag tag);
  void deliver(Incoming& receive, const Incoming& body);
  void keep(const Incoming& body);
  void put_control(Frame frame, ConstBytes body);
  void forget_if_empty(Tag tag);
  [[noreturn]] void too_long(std::size_t sent, Rank from, std::size_t room, Rank to, Tag tag) const;
  [[noreturn]] void fail(const std::string& what) const;

  Rank rank_;
  Rank peer_;
  std::unordered_map<Tag, Tagged> tags_;
  std::deque<std::shared_ptr<Outgoing>> granted_;  // not yet all in the hands of rails
  // By the sequence numbers of their grants.
  std::unordered_map<std::uint64_t, std::shared_ptr<Incoming>> expected_;
  Control control_;
  bool urgent_ = false;
  std::uint64_t next_sequence_ = 0;     // of ours
  std::uint64_t handled_ = 0;           // of the peer's
  std::uint64_t handled_there_ = 0;     // of ours, as far as it has told
  std::map<std::uint64_t, Held> held_;  // frames that came ahead of their turn
  std::size_t ahead_bytes_ = 0;         // of ours, without a grant
  std::size_t early_bytes_ = 0;         // of the peer's that are kept here
  std::size_t unused_grants_ = 0;
};

}  // namespace rueda
