// SPDX-License-Identifier: Apache-2.0
#include "ops/buffers/tensor_segments.h"

#include <algorithm>

namespace rueda {

TensorSegments::Part TensorSegments::part(const Plan& plan, std::size_t tensor, Rank index, Rank size) {
  const std::int64_t elements = plan.tensors[tensor].elements();
  const std::int64_t each = elements / size, rest = elements % size;
  return {tensor, each * index + std::min<std::int64_t>(index, rest), each + (index < rest ? 1 : 0)};
}

std::int64_t TensorSegments::elements() const {
  std::int64_t sum = 0;
  for (std::size_t tensor = 0; tensor < plan_->tensors.size(); ++tensor)
    sum += part(*plan_, tensor, index_, size_).count;
  return sum;
}

TensorSegments::Part TensorSegments::next(std::int64_t most) {
  for (; tensor_ < plan_->tensors.size(); ++tensor_, done_ = 0) {
    const Part whole = part(*plan_, tensor_, index_, size_);
    if (done_ == whole.count) continue;
    const std::int64_t begin = whole.begin + done_, count = std::min(most, whole.count - done_);
    done_ += count;
    return {tensor_, begin, count};
  }
  return {};
}

}  // namespace rueda
