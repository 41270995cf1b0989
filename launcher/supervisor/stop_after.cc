// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/stop_after.h"

namespace rueda {

void StopAfter::on_start(Time now) {
  if (after_.count() > 0) next_ = limit_ = now + after_;
}

void StopAfter::ask_now(Time now) {
  if (asked_at_) return;
  next_ = now;
  is_wish_ = true;
}

void StopAfter::on_end() { next_.reset(); }

StopAfter::Act StopAfter::next_act(Time now) {
  if (!next_ || now < *next_) return Act::nothing;
  if (asked_at_) {
    next_.reset();
    return Act::give_up;
  }
  asked_at_ = now;
  const std::optional<Time> from = is_wish_ ? limit_ : now;
  next_.reset();
  if (from) next_ = *from + grace_;
  return Act::ask;
}

}  // namespace rueda
