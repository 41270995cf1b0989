// SPDX-License-Identifier: Apache-2.0
#include "core/base/error.h"

#include <fmt/format.h>

#include <cstdlib>

#include "core/base/log.h"

namespace rueda {

void throw_if_error(const Status& status) {
  switch (status.code) {
    case StatusCode::ok: return;
    case StatusCode::invalid_argument: throw InvalidArgument(status);
    case StatusCode::mismatch: throw Mismatch(status);
    case StatusCode::peer_lost: throw PeerLost(status);
    case StatusCode::stalled: throw Stalled(status);
    case StatusCode::shut_down: throw ShutDown(status);
    case StatusCode::not_initialized: throw NotInitialized(status);
    case StatusCode::backend_error: throw BackendError(status);
  }
}

bool may_succeed_later(const Error& error) {
  return error.code() != StatusCode::invalid_argument && error.code() != StatusCode::not_initialized;
}

void refuse(const std::string& words) { throw InvalidArgument(Status::invalid_argument(words)); }

void assertion_failed(const char* condition, const char* file, int line) {
  write_to_stderr(fmt::format("rueda: internal error: {} does not hold at {}:{}. Please report it.\n",
                              condition, file, line));
  flush_stderr(kLastWordsTime);
  std::abort();
}

}  // namespace rueda
