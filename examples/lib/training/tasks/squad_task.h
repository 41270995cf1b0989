// SPDX-License-Identifier: Apache-2.0
// Question answering on SQuAD: marking the answer in the text.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "examples/lib/data/features.h"
#include "examples/lib/data/metrics.h"
#include "examples/lib/data/squad.h"
#include "examples/lib/training/options/bert_options.h"
#include "examples/lib/training/task.h"
#include "examples/lib/training/tasks/bert_start.h"

namespace rueda::examples {

class BertForQuestionAnswering;

// Purpose: --task squad. A sample is a window of question and context; exact match and F1 are of the
// questions of the held-out articles, or of all where none are held out.
class SquadTask final : public Task {
 public:
  // Throws std::runtime_error or std::invalid_argument naming the file or the flag at fault.
  explicit SquadTask(const BertOptions& options);

  std::vector<std::string> settings() const override;
  std::vector<std::string> words() const override;
  std::size_t samples() const override;
  TaskBatch make_batch(std::span<const Sample> chosen) const override;
  torch::nn::Module& model() override;
  TaskLoss losses(const TaskBatch& batch) override;
  std::vector<std::string> metric_names() const override;
  std::vector<Metric> evaluate() override;
  void write_results() const override;
  void save(const std::filesystem::path& folder) const override;
  void load(const std::filesystem::path& folder) override;

 private:
  void read();
  std::string data_words() const;
  std::vector<Metric> metrics(const SplitScore& score, double loss) const;

  const BertOptions options_;
  const BertStart start_;
  SquadData held_out_;
  std::size_t without_answer_ = 0;        // of the held-out questions
  BadItems bad_;                          // that were left out
  std::vector<std::string> predictions_;  // of the last evaluation
  std::vector<Feature> training_windows_;
  std::vector<Feature> held_out_windows_;
  std::uint64_t windows_hash_ = 0;  // of the training windows' tokens
  std::shared_ptr<BertForQuestionAnswering> model_;
  std::string model_words_;
};

}  // namespace rueda::examples
