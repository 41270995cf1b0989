// SPDX-License-Identifier: Apache-2.0
// LibTorch's automatic mixed precision.
#pragma once

#include <c10/core/DeviceType.h>

#include "examples/lib/training/options/options.h"

namespace rueda::examples {

// Purpose: while it lives, matrix products that this thread gives to devices of that type run in bfloat16 if
// the options say so; operations that need more precision stay in float32. Around forward pass and loss only:
// the backward pass does as they did.
class AutocastScope {
 public:
  AutocastScope(Autocast kind, at::DeviceType device);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  const bool on_;
  const at::DeviceType device_;
  bool was_enabled_ = false;
};

}  // namespace rueda::examples
