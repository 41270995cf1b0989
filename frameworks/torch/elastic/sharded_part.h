// SPDX-License-Identifier: Apache-2.0
// A sharded optimizer or model in the state of an elastic training.
#pragma once

#include <torch/optim/optimizer.h>

#include <memory>
#include <string>
#include <vector>

#include "frameworks/torch/sharding/recoverable_parts.h"
#include "rueda/torch/elastic/part.h"
#include "rueda/torch/sharding/divided_optimizer.h"

namespace rueda::elastic {

// Purpose: keeps the parts of a DividedOptimizer: those of the parameters, and of the optimizer's state. A
// full commit copies the parts that this rank has. restore() restores the options alone; the sync() that
// follows divides the committed version among the present ranks.
class ShardedPart final : public Part {
 public:
  ShardedPart(torch::optim::Optimizer& optimizer, DividedOptimizer& divided);

  std::string describe() const override;
  void save() override;
  void note() override;
  bool is_ahead() const override { return parts_.is_ahead(); }
  Stepping stepping() const override;
  void restore() override;
  void sync(Rank root, const Scope& scope) override;
  bool divides() const override { return true; }
  std::vector<at::Tensor> owned() const override { return parts_.parts().parameters(); }
  void check() const override { parts_.throw_kept_back(); }

 private:
  void keep_options();

  torch::optim::Optimizer& optimizer_;
  DividedOptimizer& divided_;                                             // the same object
  RecoverableParts& parts_;                                               // of it
  std::vector<std::unique_ptr<torch::optim::OptimizerOptions>> options_;  // of each group
};

}  // namespace rueda::elastic
