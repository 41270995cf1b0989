// SPDX-License-Identifier: Apache-2.0
// Guessing masked tokens of running text.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "examples/lib/model/masked_lm.h"
#include "examples/lib/training/options/bert_options.h"
#include "examples/lib/training/task.h"
#include "examples/lib/training/tasks/bert_start.h"
#include "examples/lib/training/tasks/lm_data.h"

namespace rueda::examples {

// Purpose, owner and lifetime are those of a Task.
class MlmTask final : public Task {
 public:
  // Throws std::runtime_error or std::invalid_argument naming the file or the flag at fault.
  explicit MlmTask(const BertOptions& options);
  // From another start than the options name.
  MlmTask(const BertOptions& options, BertStart start);

  std::vector<std::string> settings() const override { return data_.settings(); }
  std::vector<std::string> words() const override;
  std::size_t samples() const override { return data_.samples(); }
  TaskBatch make_batch(std::span<const Sample> chosen) const override { return data_.make_batch(chosen); }
  std::vector<double> counts(std::span<const Sample> chosen) const override;
  torch::nn::Module& model() override { return *model_; }
  TaskLoss losses(const TaskBatch& batch) override;
  std::vector<std::string> metric_names() const override { return LmData::metric_names(); }
  std::vector<Metric> evaluate() override { return data_.evaluate(*model_, options_.autocast); }
  void save(const std::filesystem::path& folder) const override;
  void load(const std::filesystem::path& folder) override;

  const std::shared_ptr<BertForMaskedLM>& masked_lm() const { return model_; }

 private:
  const BertOptions options_;
  const BertStart start_;
  const LmData data_;
  std::shared_ptr<BertForMaskedLM> model_;
  std::string model_words_;
};

}  // namespace rueda::examples
