// SPDX-License-Identifier: Apache-2.0
// In place of devices.cc where Rueda is built without CUDA.
#include "ops/setup/devices.h"

namespace rueda::ops {

void add_devices(RuntimeComponents& components) {
  components.no_accelerator = "no CUDA in this Rueda (" RUEDA_NO_CUDA ")";
}

}  // namespace rueda::ops
