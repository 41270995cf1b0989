// SPDX-License-Identifier: Apache-2.0
// How what is reduced in place gets into the tensors of other ranks.
#pragma once

#include <cstddef>
#include <limits>

#include "core/base/time.h"

namespace rueda {

// Purpose: whether operations of about one size store results through this core's cache or stream them past
// it. Through the cache each line comes here first: near each other, cores exchange lines several times as
// fast as memory takes them. Between cores that share no cache, lines that their owner has got from memory
// come several times slower than that; lines that go to and fro come fast. No table of the machine says which
// it is: what a tensor went through before counts, and virtual cores move. So operations are timed; what is
// slow is tried the other way now and then, and the quicker way kept; the more often that was in vain, the
// rarer. Owned by the ShmBackend.
class StoreChoice {
 public:
  // The way of the next operation.
  bool streams() const { return streams_ != (trial_ > 0); }
  // One has reduced so many bytes, of all ranks' tensors together, that way.
  void took(bool streamed, std::size_t bytes, Duration time);

 private:
  bool streams_ = false;                                   // the way kept
  double kept_ = std::numeric_limits<double>::infinity();  // ns a byte, of the best lately
  int since_trial_ = 0;                                    // operations
  int span_ = 4;
  int trial_ = 0;  // operations that go the other way now
};

}  // namespace rueda
