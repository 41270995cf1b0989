// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/autocast.h"

#include <ATen/autocast_mode.h>

namespace rueda::examples {

AutocastScope::AutocastScope(Autocast kind) : on_(kind == Autocast::bf16) {
  if (!on_) return;
  was_enabled_ = at::autocast::is_autocast_enabled(at::kCPU);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  at::autocast::increment_nesting();
}

AutocastScope::~AutocastScope() {
  if (!on_) return;
  // The outermost scope forgets the weights that it has converted: a step changes them.
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(at::kCPU, was_enabled_);
}

}  // namespace rueda::examples
