// SPDX-License-Identifier: Apache-2.0
// Exceptions. Functions of the API throw them in the caller's own thread: InvalidArgument when it calls, all
// else when it waits.
#pragma once

#include <stdexcept>
#include <string>

#include "rueda/status.h"

namespace rueda {

// Base of everything Rueda throws; `code()` tells the kind without a cast.
class Error : public std::runtime_error {
 public:
  // Takes message and code of the Status.
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

// This process has left an elastic job, as ruedarun has asked it to. It is to end, and that is no failure.
class LeftJob : public NotInitialized {
  using NotInitialized::NotInitialized;
};

}  // namespace rueda
