// SPDX-License-Identifier: Apache-2.0
// LibTorch's automatic mixed precision on the CPU.
#pragma once

#include "examples/lib/training/options.h"

namespace rueda::examples {

// Purpose: while it lives, matrix products on this thread run in bfloat16 where the options say so; what
// needs more stays in float32. Around forward pass and loss only: the backward pass does as they did.
class AutocastScope {
 public:
  explicit AutocastScope(Autocast kind);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  bool on_;
  bool was_enabled_ = false;
};

}  // namespace rueda::examples
