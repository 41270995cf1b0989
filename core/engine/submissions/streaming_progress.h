// SPDX-License-Identifier: Apache-2.0
// Tensors that come and go while a Work is at them.
#pragma once

#include <cstddef>

namespace rueda {

// Purpose: between whoever brings a Plan's tensors to the host and the Work there: how far they have come,
// and how far results may be taken away. Bytes are those of the Plan's fused buffer, from its start; of a
// tensor alone its own. The background thread's; outlives the Work.
class StreamingProgress {
 public:
  virtual ~StreamingProgress() = default;
  // Whether all inputs before `end` are there.
  virtual bool arrived(std::size_t end) = 0;
  // All outputs before `end` are as they will be. Called with ever larger ones; the last call may be missing.
  virtual void finished(std::size_t end) = 0;
};

}  // namespace rueda
