// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/elastic/noted_tensors.h"

#include <algorithm>

namespace rueda::elastic {

void NotedTensors::note(const at::Tensor& tensor) {
  noted_.push_back({tensor, tensor._version(), tensor.const_data_ptr()});
}

bool NotedTensors::changed() const {
  return std::ranges::any_of(noted_, [](const Noted& each) {
    return each.tensor._version() != each.version || each.tensor.const_data_ptr() != each.address;
  });
}

}  // namespace rueda::elastic
