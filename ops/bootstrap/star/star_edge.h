// SPDX-License-Identifier: Apache-2.0
// One connection of the star: rank 0 at one end, another rank at the other.
#pragma once

#include <optional>
#include <string>

#include "core/base/system/secure_channel.h"
#include "ops/sockets/poll_set.h"

namespace rueda {

// Purpose: carries whole control messages, and tells an end that was announced (a farewell) from a loss.
// Owned by the background thread.
class StarEdge {
 public:
  // Bytes of a message.
  static constexpr std::size_t kLongest = std::size_t{256} << 20;

  explicit StarEdge(SecureChannel channel) : channel_(std::move(channel)) {}

  SecureChannel& channel() { return channel_; }
  bool open() const { return channel_.state() == SecureChannel::State::open; }

  // Wakes a sleep when something has come, or what is unsent can go.
  void watch(PollSet& set) const { set.add(channel_.descriptor(), channel_.has_unsent()); }

  void send(ConstBytes message);
  // On rank 0: the other side belongs to this job.
  void confirm();
  void say_farewell();
  // Tells the other side why it cannot take part, and closes.
  void turn_away(const std::string& words);

  // The next message. A confirmation or a farewell is none, and ends a row of messages.
  std::optional<Bytes> take();
  // Rank 0 has confirmed that this rank belongs to its job.
  bool confirmed() const { return confirmed_; }
  // The other side has said farewell.
  bool parted() const { return parted_; }
  // The connection has ended without a farewell.
  bool lost() const { return channel_.state() == SecureChannel::State::closed && !parted_; }
  // Nothing is to come or to go any more.
  bool over() const {
    return channel_.state() == SecureChannel::State::closed || (parted_ && !channel_.has_unsent());
  }
  // Why the other side turned this one away; empty as long as it has not.
  const std::string& refusal() const { return refusal_; }

 private:
  SecureChannel channel_;
  bool confirmed_ = false;
  bool parted_ = false;
  std::string refusal_;
};

}  // namespace rueda
