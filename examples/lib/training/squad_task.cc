// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/squad_task.h"

#include <ATen/ops/cross_entropy_loss.h>
#include <fmt/format.h>

#include <utility>

#include "examples/lib/data/batches.h"
#include "examples/lib/data/dummy.h"
#include "examples/lib/model/bert_model.h"
#include "examples/lib/model/checkpoint.h"
#include "examples/lib/training/answer_batch.h"
#include "examples/lib/training/autocast.h"
#include "examples/lib/training/dummy_samples.h"
#include "examples/lib/training/evaluation.h"

namespace rueda::examples {
namespace {

// Of the tokens: other numbers, other windows.
std::uint64_t hash_of(std::span<const Feature> windows) {
  std::uint64_t hash = 0;
  for (const Feature& window : windows) {
    hash = mix(hash, window.input_ids.size());
    for (const std::int32_t id : window.input_ids) hash = mix(hash, static_cast<std::uint64_t>(id));
  }
  return hash;
}

}  // namespace

SquadTask::SquadTask(const BertOptions& options) : options_(options), start_(read_bert_start(options)) {
  if (!options.source.dummy) read();
  seed_parameters(options.seed);
  model_ = std::make_shared<BertForQuestionAnswering>(start_.config);
  model_words_ = fill_model(*model_, start_, options.dtype);
}

void SquadTask::read() {
  auto [training, held_out] =
      split_by_article(read_squad(options_.data), static_cast<std::size_t>(options_.held_out));
  held_out_ = std::move(held_out);
  const auto windows = [&](const SquadData& data) {
    return make_features(data, start_.tokenizer, static_cast<std::int32_t>(options_.max_length),
                         static_cast<std::int32_t>(options_.stride));
  };
  training_windows_ = windows(training);
  held_out_windows_ = windows(held_out_);
  windows_hash_ = hash_of(training_windows_);
}

std::string SquadTask::data_words() const {
  if (options_.source.dummy) return dummy_words(options_.max_length);
  return fmt::format("{} training windows, {} held-out questions", training_windows_.size(),
                     held_out_.questions.size());
}

std::vector<std::string> SquadTask::settings() const {
  return {fmt::format("--held-out {}", options_.held_out),
          fmt::format("--max-length {}", options_.max_length),
          fmt::format("--stride {}", options_.stride),
          vocabulary_words(start_.tokenizer),
          data_words(),
          fmt::format("windows {:016x}", windows_hash_)};
}

std::vector<std::string> SquadTask::words() const { return {model_words_, data_words()}; }

std::size_t SquadTask::samples() const {
  return options_.source.dummy ? kDummySamples : training_windows_.size();
}

TaskBatch SquadTask::make_batch(std::span<const Sample> chosen) const {
  PaddedBatch batch;
  if (options_.source.dummy) {
    batch = dummy_squad({.columns = options_.max_length, .vocab_size = start_.config.vocab_size},
                        options_.seed, positions_of(chosen));
  } else {
    std::vector<std::size_t> indices;
    for (const Sample& sample : chosen) indices.push_back(sample.index);
    batch = pad(training_windows_, indices, static_cast<std::int32_t>(start_.config.pad_token_id));
  }
  return answer_batch(batch);
}

torch::nn::Module& SquadTask::model() { return *model_; }

TaskLoss SquadTask::losses(const TaskBatch& batch) {
  const AnswerLogits logits = model_->forward(answer_input(batch));
  const at::Tensor start = at::cross_entropy_loss(logits.start, batch["starts"]);
  const at::Tensor end = at::cross_entropy_loss(logits.end, batch["ends"]);
  return {.total = (start + end) / 2};
}

std::vector<std::string> SquadTask::metric_names() const {
  if (options_.source.dummy) return {};
  return {"f1", "exact_match", "loss"};
}

std::vector<Metric> SquadTask::evaluate() {
  if (options_.source.dummy) return {};
  const AutocastScope autocast(options_.autocast, model_->device().type());
  const Evaluation found = examples::evaluate(*model_, held_out_, held_out_windows_);
  return {{"f1", found.score.f1}, {"exact_match", found.score.exact}, {"loss", found.loss}};
}

void SquadTask::save(const std::filesystem::path& folder) const {
  save_checkpoint(folder, *model_, start_.tokenizer);
}

void SquadTask::load(const std::filesystem::path& folder) { load_parameters(*model_, folder); }

}  // namespace rueda::examples
