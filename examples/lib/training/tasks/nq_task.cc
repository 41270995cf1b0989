// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/tasks/nq_task.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "examples/lib/data/dummy.h"
#include "examples/lib/model/checkpoint.h"
#include "examples/lib/model/natural_questions.h"
#include "examples/lib/training/autocast.h"
#include "examples/lib/training/options/data_options.h"
#include "examples/lib/training/tasks/answer_batch.h"
#include "examples/lib/training/tasks/dummy_samples.h"
#include "examples/lib/training/tasks/nq_evaluation.h"

namespace rueda::examples {
namespace {

constexpr std::int32_t kMostQuestionPieces = 64;

NqSettings nq_settings(const BertOptions& options) {
  return {.max_length = static_cast<std::int32_t>(options.max_length),
          .stride = static_cast<std::int32_t>(options.stride),
          .unknown_share = options.unknown_share,
          .move_windows = options.augment,
          .question_dropout = options.augment ? options.question_dropout : 0.0,
          .seed = options.seed};
}

}  // namespace

NqTask::NqTask(const BertOptions& options) : options_(options), start_(read_bert_start(options)) {
  if (!options.source.dummy) {
    corpus_.emplace(NqCorpus::open(options.data, start_.tokenizer, kMostQuestionPieces,
                                   cache_of(options.source), options.source.on_bad));
    const auto held_out = static_cast<std::size_t>(options.held_out);
    if (held_out >= corpus_->size()) {
      throw std::runtime_error(
          fmt::format("{} has {} examples, of which --held-out {} leaves none to train on",
                      options.data.string(), corpus_->size(), held_out));
    }
    const std::size_t trained = corpus_->size() - held_out;
    const NqSettings settings = nq_settings(options);
    training_.emplace(*corpus_, start_.tokenizer, settings, 0, trained);
    if (training_->size() == 0) {
      throw std::runtime_error(
          fmt::format("{}: no window of its {} training examples is trained on; raise "
                      "--unknown-share",
                      options.data.string(), trained));
    }
    const std::size_t first = held_out > 0 ? trained : 0;
    measured_.emplace(*corpus_, start_.tokenizer, settings, first, corpus_->size());
    measured_examples_ = corpus_->size() - first;
  }
  seed_parameters(options.seed);
  model_ = std::make_shared<BertForNaturalQuestions>(start_.config);
  model_words_ = fill_model(*model_, start_, options.dtype);
}

NqTask::~NqTask() = default;

std::string NqTask::data_words() const {
  if (options_.source.dummy) return dummy_words(options_.max_length);
  return fmt::format("{} training windows, measured on {} {} examples", training_->size(), measured_examples_,
                     options_.held_out > 0 ? "held-out" : "training");
}

std::vector<std::string> NqTask::settings() const {
  return {fmt::format("--held-out {}", options_.held_out),
          fmt::format("--max-length {}", options_.max_length),
          fmt::format("--stride {}", options_.stride),
          fmt::format("--unknown-share {}", options_.unknown_share),
          fmt::format("--question-dropout {}", options_.question_dropout),
          fmt::format("--augment {}", options_.augment ? "yes" : "no"),
          vocabulary_words(start_.tokenizer),
          data_words(),
          fmt::format("examples {:08x}", corpus_ ? corpus_->checksum() : 0)};
}

std::vector<std::string> NqTask::words() const {
  std::vector<std::string> lines{model_words_, data_words()};
  if (!corpus_) return lines;
  for (std::string& line : corpus_->bad().words(options_.data.string())) lines.push_back(std::move(line));
  return lines;
}

std::size_t NqTask::samples() const { return options_.source.dummy ? kDummySamples : training_->size(); }

TaskBatch NqTask::make_batch(std::span<const Sample> chosen) const {
  PaddedBatch batch;
  if (options_.source.dummy) {
    batch = dummy_nq({.columns = options_.max_length, .vocab_size = start_.config.vocab_size}, options_.seed,
                     positions_of(chosen));
  } else {
    std::vector<NqFeature> features;
    for (const Sample& sample : chosen)
      features.push_back(training_->training_feature(sample.index, sample.position));
    batch = pad(features, static_cast<std::int32_t>(start_.config.pad_token_id));
  }
  return answer_batch(batch);
}

torch::nn::Module& NqTask::model() { return *model_; }

TaskLoss NqTask::losses(const TaskBatch& batch) {
  const NaturalQuestionsLogits logits = model_->forward(answer_input(batch));
  const NaturalQuestionsLosses losses =
      natural_questions_losses(logits, batch["starts"], batch["ends"], batch["answer_types"]);
  return {.total = losses.total(),
          .parts = {{"loss_start", losses.start}, {"loss_end", losses.end}, {"loss_type", losses.type}}};
}

std::vector<std::string> NqTask::metric_names() const {
  if (options_.source.dummy) return {};
  return {"f1", "exact_match", "answer_types", "loss"};
}

std::vector<Metric> NqTask::evaluate() {
  if (options_.source.dummy) return {};
  const AutocastScope autocast(options_.autocast, model_->device().type());
  const NqEvaluation found = evaluate_nq(*model_, *corpus_, *measured_);
  return {{"f1", found.score.f1},
          {"exact_match", found.score.exact},
          {"answer_types", found.score.type},
          {"loss", found.loss}};
}

void NqTask::save(const std::filesystem::path& folder) const {
  save_checkpoint(folder, *model_, start_.tokenizer);
}

void NqTask::load(const std::filesystem::path& folder) { load_parameters(*model_, folder); }

}  // namespace rueda::examples
