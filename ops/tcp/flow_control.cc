// SPDX-License-Identifier: Apache-2.0
#include "ops/tcp/flow_control.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace rueda {
namespace {

// The bytes that a waiting message counts: empty messages are not free.
std::size_t cost(std::size_t bytes) { return bytes + sizeof(Frame); }

void end(TcpMessage& message, std::size_t moved) {
  message.moved = moved;
  message.over = true;
}

template <class Message>
Message take_front(std::list<Message>& queue) {
  Message front = std::move(queue.front());
  queue.pop_front();
  return front;
}

}  // namespace

void FlowControl::send(std::shared_ptr<Outgoing> message) {
  const Tag tag = message->tag;
  Tagged& tagged = tags_[tag];
  if (!tagged.grants.empty()) {
    --unused_grants_;
    match(std::move(message), take_front(tagged.grants));
    forget_if_empty(tag);
  } else if (tagged.sends.empty() && message->size <= Frame::kMostEager &&
             ahead_bytes_ + cost(message->size) <= kMostAhead) {
    send_ahead(tagged, std::move(message));
  } else {
    tagged.sends.push_back(std::move(message));
  }
}

void FlowControl::receive(std::shared_ptr<Incoming> message) {
  const Tag tag = message->tag;
  Tagged& tagged = tags_[tag];
  message->sequence = next_sequence_;
  // The grant is urgent if another receive of its tag is pending: the peer may wait for this grant.
  urgent_ |= tagged.expected > 0;
  put_control({.kind = FrameKind::grant, .tag = tag, .total = message->size}, {});
  if (tagged.early.empty()) {
    ++tagged.expected;
    expected_[message->sequence] = message;
    tagged.receives.push_back(std::move(message));
    return;
  }
  const std::shared_ptr<Incoming> body = take_front(tagged.early);
  early_bytes_ -= cost(body->size);
  deliver(*message, *body);
  forget_if_empty(tag);
}

void FlowControl::take(const Frame& frame, std::shared_ptr<Incoming> body) {
  if (frame.sequence < handled_ || frame.sequence - handled_ > kMostWaiting)
    fail(fmt::format("sent a frame with sequence number {} where {} was next", frame.sequence, handled_));
  if (frame.sequence > handled_) {
    if (body) keep(*body);
    if (!held_.try_emplace(frame.sequence, Held{frame, std::move(body)}).second)
      fail(fmt::format("sent two frames with sequence number {}", frame.sequence));
    return;
  }
  handle(frame, std::move(body));
  while (!held_.empty() && held_.begin()->first == handled_) {
    Held next = std::move(held_.extract(held_.begin()).mapped());
    if (next.body) early_bytes_ -= cost(next.body->size);
    handle(next.frame, std::move(next.body));
  }
}

std::shared_ptr<Incoming> FlowControl::message_of(const Frame& data) {
  const auto found = expected_.find(data.sequence);
  if (found == expected_.end() || found->second->tag != data.tag)
    fail(fmt::format("sent data of tag {} for a receive ({}) that does not wait for any", data.tag,
                     data.sequence));
  std::shared_ptr<Incoming> message = found->second;
  if (!message->total) {
    if (data.total > message->size) too_long(data.total, peer_, message->size, rank_, data.tag);
    message->total = data.total;
    std::erase(tags_[data.tag].receives, message);
  }
  if (data.total != *message->total || data.length > *message->total - message->announced)
    fail(fmt::format("sent more fragments than make a message of {} bytes (tag {})", *message->total,
                     data.tag));
  message->announced += data.length;
  return message;
}

void FlowControl::arrived(const Frame& data, Incoming& message) {
  message.came += data.length;
  if (message.came < *message.total) return;
  end(message, message.came);
  end_expected(data.sequence, data.tag);
  forget_if_empty(data.tag);
}

std::optional<FlowControl::Fragment> FlowControl::next_fragment(std::size_t longest) {
  if (granted_.empty()) return std::nullopt;
  const std::shared_ptr<Outgoing> message = granted_.front();
  message->begun = true;
  const std::size_t length = std::min({longest, Frame::kMostData, next_bytes()});
  const Frame frame{.kind = FrameKind::data,
                    .tag = message->tag,
                    .length = static_cast<std::uint32_t>(length),
                    .sequence = message->sequence,
                    .total = message->bytes.size(),
                    .offset = message->claimed};
  message->claimed += length;
  if (message->claimed == message->bytes.size()) granted_.pop_front();
  return Fragment{message, frame};
}

void FlowControl::handle(const Frame& frame, std::shared_ptr<Incoming> body) {
  ++handled_;
  Tagged& tagged = tags_[frame.tag];
  if (frame.kind == FrameKind::grant) {
    take_grant(tagged, frame);
  } else {
    take_eager(tagged, frame.total, std::move(body));
  }
  forget_if_empty(frame.tag);
}

void FlowControl::take_grant(Tagged& tagged, const Frame& frame) {
  const Grant grant{frame.sequence, frame.total};
  if (!tagged.ahead.empty()) {
    ahead_bytes_ -= cost(take_front(tagged.ahead));
  } else if (!tagged.sends.empty()) {
    match(take_front(tagged.sends), grant);
  } else {
    if (++unused_grants_ > kMostWaiting)
      fail(fmt::format("waits for more than {} messages that were not posted", kMostWaiting));
    tagged.grants.push_back(grant);
  }
}

void FlowControl::take_eager(Tagged& tagged, std::uint64_t handled_there, std::shared_ptr<Incoming> body) {
  if (handled_there < handled_there_ || handled_there > next_sequence_)
    fail(fmt::format("has handled {} frames after {} of {}", handled_there, handled_there_, next_sequence_));
  handled_there_ = handled_there;
  const auto found = std::ranges::find_if(
      tagged.receives, [&](const auto& receive) { return receive->sequence >= handled_there; });
  if (found == tagged.receives.end()) {
    keep(*body);
    tagged.early.push_back(std::move(body));
    return;
  }
  const std::shared_ptr<Incoming> receive = *found;
  tagged.receives.erase(found);
  end_expected(receive->sequence, receive->tag);
  deliver(*receive, *body);
}

void FlowControl::match(std::shared_ptr<Outgoing> message, const Grant& grant) {
  if (message->bytes.size() > grant.room) too_long(message->size, rank_, grant.room, peer_, message->tag);
  message->sequence = grant.sequence;
  granted_.push_back(std::move(message));
}

void FlowControl::send_ahead(Tagged& tagged, std::shared_ptr<Outgoing> message) {
  tagged.ahead.push_back(message->size);
  ahead_bytes_ += cost(message->size);
  message->begun = true;
  put_control({.kind = FrameKind::eager,
               .tag = message->tag,
               .length = static_cast<std::uint32_t>(message->size),
               .total = handled_},
              message->bytes);
  control_.messages.push_back(std::move(message));
}

void FlowControl::deliver(Incoming& receive, const Incoming& body) {
  if (body.size > receive.size) too_long(body.size, peer_, receive.size, rank_, receive.tag);
  if (body.size > 0 && !receive.unwanted) std::memcpy(receive.memory.data(), body.memory.data(), body.size);
  end(receive, body.size);
}

// An honest peer counts the same bytes before it sends them, until it has the grants: of messages that come
// ahead of their turn those may have gone out.
void FlowControl::keep(const Incoming& body) {
  early_bytes_ += cost(body.size);
  if (early_bytes_ <= kMostAhead) return;
  std::size_t most = kMostAhead;
  for (const auto& [sequence, receive] : expected_) most += cost(std::min(receive->size, Frame::kMostEager));
  if (early_bytes_ > most)
    fail(fmt::format("sent more than {} bytes ahead of the receives they are for", kMostAhead));
}

void FlowControl::end_expected(std::uint64_t sequence, Tag tag) {
  expected_.erase(sequence);
  --tags_[tag].expected;
}

void FlowControl::put_control(Frame frame, ConstBytes body) {
  frame.sequence = next_sequence_++;
  urgent_ |= frame.kind != FrameKind::grant || frame.total > Frame::kMostEager;
  const FrameBytes header = to_bytes(frame);
  control_.frames.insert(control_.frames.end(), header.begin(), header.end());
  control_.frames.insert(control_.frames.end(), body.begin(), body.end());
}

void FlowControl::forget_if_empty(Tag tag) {
  const auto found = tags_.find(tag);
  if (found != tags_.end() && found->second.empty()) tags_.erase(found);
}

void FlowControl::too_long(std::size_t sent, Rank from, std::size_t room, Rank to, Tag tag) const {
  throw LinkFailure{
      fmt::format("rank {} sends {} bytes to rank {}, which has room for {} (tag {}). Both must run the same "
                  "operation with "
                  "the same version of Rueda",
                  from, sent, to, room, tag)};
}

void FlowControl::fail(const std::string& what) const {
  throw LinkFailure{
      fmt::format("rank {} {}, which rank {} cannot accept. Both must run the same version of Rueda", peer_,
                  what, rank_)};
}

}  // namespace rueda
