// SPDX-License-Identifier: Apache-2.0
// Tensors that come and go while a Work is at them.
#pragma once

#include <cstddef>

namespace rueda {

// Purpose: tells a Work which input bytes have reached the host. The Work tells its owner which output bytes
// are final. Both count bytes from the start of the Plan's fused buffer, or of a single tensor. The
// background thread calls it. It outlives the Work.
class StreamingProgress {
 public:
  virtual ~StreamingProgress() = default;
  // Whether all inputs before `end` are there.
  virtual bool arrived(std::size_t end) = 0;
  // All outputs before `end` are final. `end` grows from call to call; the last call may be missing.
  virtual void finished(std::size_t end) = 0;
};

}  // namespace rueda
