// SPDX-License-Identifier: Apache-2.0
// A tensor in the state of an elastic training.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "rueda/torch/elastic/part.h"
#include "rueda/torch/state/objects.h"

namespace rueda::elastic {

// Purpose: keeps a copy of a tensor that the program may replace by another.
class TensorPart final : public Part {
 public:
  explicit TensorPart(at::Tensor& tensor) : tensor_(tensor) { TensorPart::save(); }

  std::string describe() const override { return "a tensor"; }
  void save() override { kept_ = tensor_.defined() ? tensor_.detach().clone() : tensor_; }
  void restore() override { tensor_ = kept_.defined() ? kept_.clone() : kept_; }
  void sync(Rank root, const Scope& scope) override { broadcast_object(tensor_, root, scope); }

 private:
  at::Tensor& tensor_;
  at::Tensor kept_;
};

}  // namespace rueda::elastic
