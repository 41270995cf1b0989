// SPDX-License-Identifier: Apache-2.0
#include "core/base/wait_check.h"

#include <atomic>

namespace rueda {
namespace {

std::atomic<const WaitCheck*> current{nullptr};

}  // namespace

void set_wait_check(const WaitCheck& check) { current.store(&check); }

const WaitCheck* wait_check_here() {
  const WaitCheck* check = current.load();
  return check != nullptr && check->concerns_this_thread() ? check : nullptr;
}

}  // namespace rueda
