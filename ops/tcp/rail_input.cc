// SPDX-License-Identifier: Apache-2.0
#include "ops/tcp/rail_input.h"

#include <cerrno>
#include <cstring>
#include <utility>

namespace rueda {

RailInput::Event RailInput::next(int socket, std::size_t& budget) {
  for (;;) {
    if (in_body_ && left_ > 0 && begin_ < end_) use_inbox();
    if (in_body_ && left_ == 0) {
      in_body_ = false;
      return Event::body;
    }
    if (!in_body_ && take_header()) return Event::header;
    switch (read(socket, budget)) {
      case Read::some: break;
      case Read::none: return Event::nothing;
      case Read::end: return Event::ended;
      case Read::forged: return Event::forged;
    }
  }
}

void RailInput::expect(std::shared_ptr<Incoming> message, std::size_t offset) {
  message_ = std::move(message);
  offset_ = offset;
}

RailInput::Read RailInput::read(int socket, std::size_t& budget) {
  if (budget == 0 && !(records_ && records_->ready())) return Read::none;
  std::memmove(inbox_.data(), inbox_.data() + begin_, end_ - begin_);
  end_ -= std::exchange(begin_, 0);
  std::array<iovec, 2> all{};
  const std::span<iovec> parts = scatter(all);
  ssize_t came = 0;
  do {
    came = records_ ? records_->read(socket, parts)
                    : ::readv(socket, parts.data(), static_cast<int>(parts.size()));
  } while (came < 0 && errno == EINTR);
  if (came < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Read::none;
  if (came < 0 && errno == EBADMSG && records_) return Read::forged;
  if (came < 0) error_ = errno;
  if (came <= 0) return Read::end;
  const auto fresh = static_cast<std::size_t>(came);
  const std::size_t direct = parts.size() == 2 ? std::min(fresh, left_) : 0;
  bytes_ += fresh;
  const bool all_of_it = !records_ && fresh < all[0].iov_len + all[1].iov_len;  // nothing more would come
  budget -= all_of_it ? budget : std::min(budget, fresh);
  left_ -= direct;
  offset_ += direct;
  end_ += fresh - direct;
  return Read::some;
}

// Wanted bytes go into their message's memory, all others behind the inbox. Returns the parts in use.
std::span<iovec> RailInput::scatter(std::span<iovec, 2> parts) {
  parts[1] = {inbox_.data() + end_, kInbox - end_};
  if (!in_body_ || !wanted()) return parts.last(1);
  parts[0] = {message_->memory.data() + offset_, left_};
  return parts;
}

void RailInput::use_inbox() {
  const std::size_t count = std::min(left_, end_ - begin_);
  if (wanted()) std::memcpy(message_->memory.data() + offset_, inbox_.data() + begin_, count);
  begin_ += count;
  offset_ += count;
  left_ -= count;
}

bool RailInput::take_header() {
  FrameBytes header;
  if (end_ - begin_ < header.size()) return false;
  std::memcpy(header.data(), inbox_.data() + begin_, header.size());
  begin_ += header.size();
  frame_ = frame_from(header);
  in_body_ = true;
  left_ = frame_.length;
  message_.reset();
  return true;
}

}  // namespace rueda
