// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/supervisor_line.h"

#include <algorithm>
#include <optional>

namespace rueda {

void SupervisorLine::tell(const agents::Message& message) {
  waiting_.push_back(agents::encode(message));
  waiting_bytes_ += waiting_.back().size();
  send_waiting();
}

std::vector<agents::Message> SupervisorLine::hear() {
  std::vector<agents::Message> heard;
  channel_.progress();
  while (const std::optional<Bytes> bytes = channel_.take()) {
    std::optional<agents::Message> message = agents::decode(*bytes);
    if (!message) continue;
    if (const auto* credit = std::get_if<agents::Credit>(&*message))
      ahead_ -= std::min<std::size_t>(ahead_, credit->cost);
    else
      heard.push_back(std::move(*message));
  }
  send_waiting();
  return heard;
}

void SupervisorLine::send_waiting() {
  for (; !waiting_.empty() && ahead_ + agents::cost_of(waiting_.front()) <= agents::kMostAhead;
       waiting_.pop_front()) {
    ahead_ += agents::cost_of(waiting_.front());
    waiting_bytes_ -= waiting_.front().size();
    channel_.send(waiting_.front());
  }
}

}  // namespace rueda
