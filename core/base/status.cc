// SPDX-License-Identifier: Apache-2.0
#include "rueda/status.h"

#include <array>

namespace rueda {

std::string_view to_string(StatusCode code) {
  constexpr std::array<std::string_view, kStatusCodeCount> kNames{
      "ok",      "InvalidArgument", "Mismatch",       "PeerLost",
      "Stalled", "ShutDown",        "NotInitialized", "BackendError"};
  return kNames[static_cast<std::size_t>(code)];
}

}  // namespace rueda
