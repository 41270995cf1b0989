// SPDX-License-Identifier: Apache-2.0
// A module in the state of an elastic training.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "frameworks/torch/elastic/noted_tensors.h"
#include "rueda/torch/elastic/part.h"

namespace rueda::elastic {

// Purpose: keeps copies of all tensors after save(). After note() it keeps copies of the buffers, and of
// parameters that the program changes, but no optimizer trains.
class ModulePart final : public Part {
 public:
  // leave_out() comes before all others.
  explicit ModulePart(torch::nn::Module& module) : module_(module) {}

  std::string describe() const override;
  void save() override;
  void note() override;
  bool is_ahead() const override;
  void restore() override;
  void sync(Rank root, const Scope& scope) override;
  void leave_out(const std::vector<at::Tensor>& owned) override;

 private:
  // A tensor of the module, and its value at the last commit. An undefined value: it had not changed before.
  struct Copy {
    at::Tensor tensor;
    std::int64_t version;
    at::Tensor value;
  };
  static Copy copy_of(const at::Tensor& tensor);
  static Copy copy_or_former(const at::Tensor& buffer, std::vector<Copy>& former);
  static Copy copy_of_fixed(const at::Tensor& parameter, std::vector<Copy>& former);

  void list_tensors();
  void keep_first();
  bool is_left_out(const at::Tensor& tensor) const;

  torch::nn::Module& module_;
  std::vector<at::Tensor> left_out_;              // parameters that another Part keeps
  std::vector<at::Tensor> parameters_, buffers_;  // at the last save(): LibTorch takes long to list them
  std::vector<Copy> copies_;
  std::optional<NotedTensors> noted_;  // parameters without copies
};

}  // namespace rueda::elastic
