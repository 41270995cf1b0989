// SPDX-License-Identifier: Apache-2.0
// The functions on the stacks of a snapshot.
#pragma once

#include "launcher/stacks/process_snapshot.h"

namespace rueda {

// Whether this build can find them: it needs libdw, and knows the registers of x86-64.
bool has_native_stacks();

// Writes a line of JSON for each thread whose stack was read: {"id", "frames": ["function (file)", …]}, the
// innermost function first, at most 256 of them. Behind all, another line for each one, with the lines of
// source files: "function (file:line)". It reads files that belong to others, and may crash on them, so a
// child of its own should call it. It looks for debug information in the program's own files only.
void write_native_stacks(const ProcessSnapshot& snapshot, int descriptor);

}  // namespace rueda
