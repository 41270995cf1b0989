// SPDX-License-Identifier: Apache-2.0
// The words of a refusal.
#pragma once

#include <string>
#include <utility>

#include "core/base/error.h"

namespace rueda {

// Those of the `Kind` that `action` throws; another exception passes.
template <class Kind = InvalidArgument, class Action>
std::string words_of(Action&& action) {
  try {
    std::forward<Action>(action)();
  } catch (const Kind& error) {
    return error.what();
  }
  return "nothing thrown";
}

}  // namespace rueda
