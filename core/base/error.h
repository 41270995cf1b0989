// SPDX-License-Identifier: Apache-2.0
// The implementation throws the exceptions of rueda/error.h by these, and checks its own assumptions.
#pragma once

#include <string>

#include "rueda/error.h"  // IWYU pragma: export
#include "rueda/status.h"

namespace rueda {

// Throws the class that belongs to `status.code`; returns when it is ok.
void throw_if_error(const Status& status);

// Returns true if the operation that failed so may succeed in another job. A meaningless one fails again.
bool may_succeed_later(const Error& error);

// Throws InvalidArgument.
[[noreturn]] void refuse(const std::string& words);

// For our own bugs, never for a user's mistake: prints file and line, and ends the process.
[[noreturn]] void assertion_failed(const char* condition, const char* file, int line);

}  // namespace rueda

// Of what our own code takes for granted, in every build.
#define RUEDA_ASSERT(condition) \
  (static_cast<bool>(condition) ? void(0) : ::rueda::assertion_failed(#condition, __FILE__, __LINE__))
