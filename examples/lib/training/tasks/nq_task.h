// SPDX-License-Identifier: Apache-2.0
// Natural Questions: the type of the answer, and its position in a long document.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "examples/lib/data/nq_corpus.h"
#include "examples/lib/data/nq_features.h"
#include "examples/lib/training/options/bert_options.h"
#include "examples/lib/training/task.h"
#include "examples/lib/training/tasks/bert_start.h"

namespace rueda::examples {

class BertForNaturalQuestions;

// Purpose: --task nq. A sample is a window of question and document, made from the node's cache and augmented
// when it is asked for; types, exact match and F1 are of the held-out examples, the last of the file.
class NqTask final : public Task {
 public:
  // Throws std::runtime_error or std::invalid_argument naming the file or the flag at fault.
  explicit NqTask(const BertOptions& options);
  ~NqTask() override;

  std::vector<std::string> settings() const override;
  std::vector<std::string> words() const override;
  std::size_t samples() const override;
  TaskBatch make_batch(std::span<const Sample> chosen) const override;
  torch::nn::Module& model() override;
  TaskLoss losses(const TaskBatch& batch) override;
  std::vector<std::string> metric_names() const override;
  std::vector<Metric> evaluate() override;
  void save(const std::filesystem::path& folder) const override;
  void load(const std::filesystem::path& folder) override;

 private:
  std::string data_words() const;

  const BertOptions options_;
  const BertStart start_;
  std::optional<NqCorpus> corpus_;  // these are absent where batches are made up
  std::optional<NqWindows> training_;
  std::optional<NqWindows> measured_;
  std::size_t measured_examples_ = 0;
  std::shared_ptr<BertForNaturalQuestions> model_;
  std::string model_words_;
};

}  // namespace rueda::examples
