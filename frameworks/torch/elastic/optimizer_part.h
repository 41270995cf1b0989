// SPDX-License-Identifier: Apache-2.0
// An optimizer in the state of an elastic training.
#pragma once

#include <torch/optim/optimizer.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "frameworks/torch/elastic/noted_tensors.h"
#include "rueda/torch/elastic/part.h"
#include "rueda/torch/reducer/gradient_reducer.h"

namespace rueda::elastic {

// Purpose: keeps a copy of an optimizer's state after save(), and its options alone after note(). State of a
// class that Rueda does not know is kept as bytes. Steps count only if the optimizer has a GradientReducer:
// LibTorch's optimizers tell nobody of their steps.
class OptimizerPart final : public Part {
 public:
  explicit OptimizerPart(torch::optim::Optimizer& optimizer);

  std::string describe() const override;
  void save() override;
  void note() override;
  bool is_ahead() const override;
  Stepping stepping() const override;
  void restore() override;
  void sync(Rank root, const Scope& scope) override;

 private:
  using States = std::vector<std::pair<void*, std::unique_ptr<torch::optim::OptimizerParamState>>>;
  using Options = std::vector<std::unique_ptr<torch::optim::OptimizerOptions>>;

  bool knows_states() const;
  void keep_options();
  void begin_to_count();

  torch::optim::Optimizer& optimizer_;
  GradientReducer* const reducer_;     // null: steps are not counted
  std::uint64_t steps_ = 0;            // its number at the last commit
  std::optional<NotedTensors> noted_;  // state without a copy
  States states_;
  Options options_;    // of each group
  std::string bytes_;  // everything, if a class of state is not known
};

}  // namespace rueda::elastic
