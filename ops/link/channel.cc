// SPDX-License-Identifier: Apache-2.0
#include "ops/link/channel.h"

#include <fmt/format.h>

#include "core/base/error.h"

namespace rueda {

void Channel::take(std::size_t came, std::size_t due) {
  if (came == 0 && due != 0) {
    abandoned_ = true;
  } else if (came != due) {
    throw BackendError(Status::backend_error(
        fmt::format("a message of {} bytes came where {} are due. Are all ranks of one build?", came, due)));
  }
}

Transfer Channel::send(Rank peer, ConstBytes bytes) {
  Transfer transfer;
  if (bytes.empty()) return transfer;
  transfer.due_ = abandoned_ ? 0 : bytes.size();
  transfer.ticket_ = link_.post_send(peer, {bytes.data(), transfer.due_}, tag_);
  transfer.channel_ = this;
  return transfer;
}

Transfer Channel::receive(Rank peer, MutableBytes bytes) {
  Transfer transfer;
  if (bytes.empty()) return transfer;
  transfer.due_ = bytes.size();
  if (abandoned_) transfer.nowhere_ = HostBuffer(bytes.size());
  transfer.ticket_ = link_.post_receive(peer, abandoned_ ? transfer.nowhere_.bytes() : bytes, tag_);
  transfer.channel_ = this;
  return transfer;
}

}  // namespace rueda
