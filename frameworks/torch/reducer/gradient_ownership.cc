// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/reducer/gradient_ownership.h"

#include <mutex>
#include <unordered_set>

namespace rueda {
namespace {

struct Claimed {
  std::mutex mutex;
  std::unordered_set<const void*> parameters;  // guarded by the mutex
};

Claimed& claimed() {
  static Claimed instance;
  return instance;
}

}  // namespace

bool GradientOwnership::claim(const at::Tensor& parameter) {
  const void* identity = parameter.unsafeGetTensorImpl();
  std::lock_guard lock(claimed().mutex);
  if (!claimed().parameters.insert(identity).second) return false;
  mine_.push_back(identity);
  return true;
}

void GradientOwnership::release() {
  if (mine_.empty()) return;
  std::lock_guard lock(claimed().mutex);
  for (const void* identity : mine_) claimed().parameters.erase(identity);
  mine_.clear();
}

}  // namespace rueda
