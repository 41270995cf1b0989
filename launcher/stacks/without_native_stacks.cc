// SPDX-License-Identifier: Apache-2.0
// A build without libdw.
#include "launcher/stacks/native_stacks.h"

namespace rueda {

bool has_native_stacks() { return false; }

void write_native_stacks(const ProcessSnapshot&, int) {}

}  // namespace rueda
