// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/autocast.h"

#include <ATen/autocast_mode.h>

namespace rueda::examples {

AutocastScope::AutocastScope(Autocast kind, at::DeviceType device)
    : on_(kind == Autocast::bf16), device_(device) {
  if (!on_) return;
  was_enabled_ = at::autocast::is_autocast_enabled(device_);
  at::autocast::set_autocast_enabled(device_, true);
  at::autocast::set_autocast_dtype(device_, at::kBFloat16);
  at::autocast::increment_nesting();
}

AutocastScope::~AutocastScope() {
  if (!on_) return;
  // The outermost scope forgets the weights that it has converted: a step changes them.
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, was_enabled_);
}

}  // namespace rueda::examples
