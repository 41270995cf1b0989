// SPDX-License-Identifier: Apache-2.0
// Which tensors of float32 a step submits together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rueda::bench {

struct NamedTensor {
  std::string name;
  std::int64_t elements = 1;
};

// A plain value; at least one tensor.
struct Workload {
  std::vector<NamedTensor> tensors;  // in the order in which they are submitted

  std::int64_t bytes() const;  // of all
  bool alike() const;          // all of the same size
};

// `bytes` are those of each, a multiple of 4.
Workload equal_tensors(std::int64_t count, std::int64_t bytes);

// The gradients of a model of models(), in the order in which backward makes them: the last layer first.
Workload gradients_of(const std::string& model);
std::vector<std::string> models();

}  // namespace rueda::bench
