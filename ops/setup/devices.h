// SPDX-License-Identifier: Apache-2.0
// The backends of tensors on devices.
#pragma once

#include "core/engine/runtime_components.h"

namespace rueda::ops {

// Adds them behind those of the host, which are all there.
void add_devices(RuntimeComponents& components);

}  // namespace rueda::ops
