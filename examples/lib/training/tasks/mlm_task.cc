// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/tasks/mlm_task.h"

#include <utility>

#include "examples/lib/model/checkpoint.h"

namespace rueda::examples {

MlmTask::MlmTask(const BertOptions& options) : MlmTask(options, read_bert_start(options)) {}

MlmTask::MlmTask(const BertOptions& options, BertStart start)
    : options_(options),
      start_(std::move(start)),
      data_({.file = options.data,
             .data = options.source,
             .max_length = options.max_length,
             .held_out = options.held_out,
             .seed = options.seed},
            start_.tokenizer) {
  seed_parameters(options.seed);
  model_ = std::make_shared<BertForMaskedLM>(start_.config);
  model_words_ = fill_model(*model_, start_, options.dtype);
}

std::vector<std::string> MlmTask::words() const {
  std::vector<std::string> lines{model_words_};
  for (std::string& line : data_.words()) lines.push_back(std::move(line));
  return lines;
}

std::vector<double> MlmTask::counts(std::span<const Sample> chosen) const {
  const auto counts = data_.counts(chosen);
  return counts ? std::vector{counts->masked} : std::vector<double>();
}

TaskLoss MlmTask::losses(const TaskBatch& batch) {
  const at::Tensor mean =
      masked_lm_loss(*model_, model_->encode(input_of(batch)), batch["labels"], batch["masked"]);
  return {.total = mean * batch.weight(0)};
}

void MlmTask::save(const std::filesystem::path& folder) const {
  save_checkpoint(folder, *model_, start_.tokenizer);
}

void MlmTask::load(const std::filesystem::path& folder) { load_parameters(*model_, folder); }

}  // namespace rueda::examples
