// SPDX-License-Identifier: Apache-2.0
#include "core/base/status.h"

#include <array>

namespace rueda {

std::string_view to_string(StatusCode code) {
  constexpr std::array<std::string_view, kStatusCodeCount> kNames{
      "ok",      "InvalidArgument", "Mismatch",       "PeerLost",
      "Stalled", "ShutDown",        "NotInitialized", "BackendError"};
  return kNames[static_cast<std::size_t>(code)];
}

std::optional<StatusCode> status_code_from(std::uint8_t value) {
  if (value >= kStatusCodeCount) return std::nullopt;
  return static_cast<StatusCode>(value);
}

}  // namespace rueda
