// SPDX-License-Identifier: Apache-2.0
// Signals as something to read, for loops that wait for several things.
#pragma once

#include <initializer_list>

#include "launcher/descriptor.h"

namespace rueda {

// From now on these signals wait to be read. A broken pipe is an error of write.
Descriptor catch_signals(std::initializer_list<int> signals);

// 0 when none has come.
int next_signal(const Descriptor& signals);

}  // namespace rueda
