// SPDX-License-Identifier: Apache-2.0
// What the operations over a Link have in common.
#pragma once

#include <string_view>

#include "core/engine/work.h"
#include "ops/buffers/work_memory.h"
#include "ops/link/channel.h"

namespace rueda {

// Whom to talk to, and how.
struct Route {
  Channel* wire = nullptr;
  // For what tells how much is to come over `wire`. Never abandoned: so every rank knows its schedule.
  Channel* sizes = nullptr;
  const Memory* memory = nullptr;
  Group group;
  std::int64_t chunk_bytes = 1;
};

// Purpose: one rank's part of an operation, as a Work is. Owned by a Work and stepped by it. Where
// `wire->abandoned()` it goes through what is left of its schedule, but reads and writes nothing; memory that
// it had not got by then it does not need any more. Its constructor gets no memory that may be missing: that
// is for the first step, which may throw WorkFailure and can be repeated abandoned.
class Algorithm {
 public:
  using Step = Work::Step;

  virtual ~Algorithm() = default;
  virtual Step step() = 0;  // never given_up
  virtual std::string_view phase() const = 0;
};

}  // namespace rueda
