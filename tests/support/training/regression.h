// SPDX-License-Identifier: Apache-2.0
// A small model and data for tests of the torch frontend: the same on every rank, without random numbers.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

namespace rueda {

struct Batch {
  at::Tensor inputs;   // [rows, 4]
  at::Tensor targets;  // [rows, 2]
};

// `rows` rows, from row `first` of an endless sequence.
Batch make_batch(std::int64_t first, std::int64_t rows, at::ScalarType type = at::kDouble);

// Purpose: a perceptron of two layers with a mean squared loss. Two of equal `seed` are equal.
class Regression {
 public:
  // Of its gradients, with 8 hidden values, all are small enough for one-shots.
  static constexpr std::int64_t kTooLargeForOneShots = 1100;  // hidden.weight has 4 times as many
  explicit Regression(int seed = 1, at::ScalarType type = at::kDouble, std::int64_t hidden = 8);

  at::Tensor loss(const Batch& batch) const;
  std::vector<at::Tensor> tensors() const;
  at::Tensor operator[](std::size_t index) const { return named[index].second; }

  std::vector<std::pair<std::string, at::Tensor>>
      named;  // hidden.weight, hidden.bias, output.weight, output.bias
};

// A leaf of `sizes` that requires a gradient, its values set by `seed`.
at::Tensor make_parameter(at::IntArrayRef sizes, int seed, at::ScalarType type = at::kDouble);

// The largest difference of any two values; infinite when one of the two is undefined or shapes differ.
double difference(const at::Tensor& a, const at::Tensor& b);

}  // namespace rueda
