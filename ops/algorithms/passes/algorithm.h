// SPDX-License-Identifier: Apache-2.0
// The common part of the operations over a Link.
#pragma once

#include <string_view>

#include "core/engine/work.h"
#include "ops/buffers/work_memory.h"
#include "ops/link/channel.h"

namespace rueda {

// Whom to talk to, and how.
struct Route {
  Channel* channel = nullptr;
  // For what tells how much is to come over `channel`. Never abandoned: so every rank knows its schedule.
  Channel* sizes = nullptr;
  const Memory* memory = nullptr;
  Group group;
  std::int64_t chunk_bytes = 1;
};

// Purpose: one rank's part of an operation. Owned by a Work and stepped by it. Once `channel->abandoned()` it
// goes through the rest of its schedule, but reads and writes no tensor. After that it allocates nothing. The
// first step allocates memory, not the constructor. That step may throw WorkFailure, and can be repeated
// abandoned.
class Algorithm {
 public:
  using Step = Work::Step;

  virtual ~Algorithm() = default;
  virtual Step step() = 0;  // never given_up
  virtual std::string_view phase() const = 0;
};

}  // namespace rueda
