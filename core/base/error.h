// SPDX-License-Identifier: Apache-2.0
// Exceptions, thrown only at the public edge in the user's own thread: from submit (bad arguments) or wait
// (all else).
#pragma once

#include <stdexcept>
#include <string>

#include "core/base/status.h"

namespace rueda {

// Base of everything Rueda throws; `code()` tells the kind without a cast.
class Error : public std::runtime_error {
 public:
  // What the Status says.
  explicit Error(const Status& status) : std::runtime_error(status.message), code_(status.code) {}
  StatusCode code() const { return code_; }

 private:
  StatusCode code_;
};

// One class for each StatusCode; the enumeration says when.
class InvalidArgument : public Error {
  using Error::Error;
};
class Mismatch : public Error {
  using Error::Error;
};
class PeerLost : public Error {
  using Error::Error;
};
class Stalled : public Error {
  using Error::Error;
};
class ShutDown : public Error {
  using Error::Error;
};
class NotInitialized : public Error {
  using Error::Error;
};
class BackendError : public Error {
  using Error::Error;
};

// Throws the class that belongs to `status.code`; returns when it is ok.
void throw_if_error(const Status& status);

// Throws InvalidArgument.
[[noreturn]] void refuse(const std::string& words);

// For our own bugs, never for a user's mistake: prints the place and ends the process.
[[noreturn]] void assertion_failed(const char* condition, const char* file, int line);

}  // namespace rueda

// Of what our own code takes for granted, in every build.
#define RUEDA_ASSERT(condition) \
  (static_cast<bool>(condition) ? void(0) : ::rueda::assertion_failed(#condition, __FILE__, __LINE__))
