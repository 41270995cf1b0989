// SPDX-License-Identifier: Apache-2.0
#include "ops/tcp/rail_output.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace rueda {

void RailOutput::load(FlowControl::Control control) {
  head_ = std::move(control.frames);
  messages_ = std::move(control.messages);
}

void RailOutput::load(FlowControl::Fragment fragment) {
  const FrameBytes header = to_bytes(fragment.frame);
  head_.insert(head_.end(), header.begin(), header.end());
  message_ = std::move(fragment.message);
  offset_ = fragment.frame.offset;
  length_ = left_ = fragment.frame.length;
}

RailOutput::Result RailOutput::write(int socket, std::size_t& budget) {
  while (!idle()) {
    std::array<iovec, 2> parts{iovec{head_.data() + head_written_, head_.size() - head_written_}};
    // sendmsg reads only.
    if (left_ > 0) parts[1] = {const_cast<std::byte*>(message_->bytes.data()) + offset_, left_};
    const ssize_t count = send(socket, std::span(parts).first(left_ > 0 ? 2 : 1));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Result::blocked;
    if (count < 0) {
      error_ = errno;
      return Result::broken;
    }
    budget -= std::min(budget, static_cast<std::size_t>(count));
    advance(static_cast<std::size_t>(count));
  }
  return Result::written;
}

bool RailOutput::send_now(int socket, ConstBytes bytes) {
  // Nothing writes there.
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  return send(socket, std::span(&part, 1)) > 0;
}

ssize_t RailOutput::send(int socket, std::span<iovec> parts) {
  if (records_) return records_->write(socket, parts);
  msghdr header{};
  header.msg_iov = parts.data();
  header.msg_iovlen = parts.size();
  return ::sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void RailOutput::advance(std::size_t count) {
  bytes_ += count;
  const std::size_t of_head = std::min(count, head_.size() - head_written_);
  head_written_ += of_head;
  offset_ += count - of_head;
  left_ -= count - of_head;
  if (head_written_ == head_.size() && left_ == 0) finish();
}

void RailOutput::finish() {
  head_.clear();
  head_written_ = 0;
  if (message_) {
    message_->written += length_;
    if (message_->written == message_->bytes.size()) messages_.push_back(message_);
  }
  for (const std::shared_ptr<Outgoing>& message : messages_) {
    message->moved = message->size;
    message->over = true;
  }
  messages_.clear();
  message_.reset();
}

}  // namespace rueda
