// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/tasks/squad_task.h"

#include <ATen/ops/cross_entropy_loss.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "examples/lib/data/batches.h"
#include "examples/lib/data/dummy.h"
#include "examples/lib/model/bert_model.h"
#include "examples/lib/model/checkpoint.h"
#include "examples/lib/reporting/run_report.h"
#include "examples/lib/training/autocast.h"
#include "examples/lib/training/tasks/answer_batch.h"
#include "examples/lib/training/tasks/dummy_samples.h"
#include "examples/lib/training/tasks/evaluation.h"

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
  if (!options_.predictions.empty()) check_writable(options_.predictions);
  SquadData all = read_squad(options_.data, options_.source.on_bad);
  bad_ = std::move(all.bad);
  if (options_.null_score_threshold && !all.may_lack_answers)
    throw UsageError(
        fmt::format("--null-score-threshold is for SQuAD v2.0, and in {} every question has an answer",
                    options_.data.string()));
  auto [training, held_out] = split_by_article(all, static_cast<std::size_t>(options_.held_out));
  held_out_ = options_.held_out > 0 ? std::move(held_out) : std::move(all);
  without_answer_ = static_cast<std::size_t>(
      std::ranges::count_if(held_out_.questions, [](const Question& one) { return one.answers.empty(); }));
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
  std::string words =
      fmt::format("{} training windows, {} {} questions", training_windows_.size(),
                  held_out_.questions.size(), options_.held_out > 0 ? "held-out" : "measured");
  if (held_out_.may_lack_answers) words += fmt::format(", {} of them without answer", without_answer_);
  return words;
}

std::vector<std::string> SquadTask::settings() const {
  std::vector<std::string> lines{fmt::format("--held-out {}", options_.held_out),
                                 fmt::format("--max-length {}", options_.max_length),
                                 fmt::format("--stride {}", options_.stride),
                                 vocabulary_words(start_.tokenizer),
                                 data_words(),
                                 fmt::format("windows {:016x}", windows_hash_)};
  if (held_out_.may_lack_answers)
    lines.push_back(fmt::format("--null-score-threshold {}", options_.null_score_threshold.value_or(0)));
  return lines;
}

std::vector<std::string> SquadTask::words() const {
  std::vector<std::string> lines{model_words_, data_words()};
  for (std::string& line : bad_.words(options_.data.string())) lines.push_back(std::move(line));
  return lines;
}

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

// The names of v2.0's script, but for those that v1.1 has, too. Of a kind of question that does not occur it
// says nothing.
std::vector<Metric> SquadTask::metrics(const SplitScore& score, double loss) const {
  std::vector<Metric> found{{"f1", score.all.f1}, {"exact_match", score.all.exact}};
  const auto add = [&](const std::string& prefix, const Score& part, std::size_t total) {
    if (total == 0) return;
    found.push_back({prefix + "_exact", part.exact});
    found.push_back({prefix + "_f1", part.f1});
    found.push_back({prefix + "_total", static_cast<double>(total), /*is_count=*/true});
  };
  if (held_out_.may_lack_answers) {
    found.push_back({"total", static_cast<double>(held_out_.questions.size()), /*is_count=*/true});
    add("HasAns", score.has_answer, held_out_.questions.size() - without_answer_);
    add("NoAns", score.no_answer, without_answer_);
  }
  found.push_back({"loss", loss});
  return found;
}

std::vector<std::string> SquadTask::metric_names() const {
  std::vector<std::string> names;
  if (options_.source.dummy) return names;
  for (Metric& metric : metrics({}, 0)) names.push_back(std::move(metric.name));
  return names;
}

std::vector<Metric> SquadTask::evaluate() {
  if (options_.source.dummy) return {};
  const AutocastScope autocast(options_.autocast, model_->device().type());
  Evaluation found =
      examples::evaluate(*model_, held_out_, held_out_windows_, options_.null_score_threshold.value_or(0));
  predictions_ = std::move(found.predictions);
  return metrics(found.score, found.loss);
}

// In ASCII, for SQuAD's scripts read it in whatever encoding the system has.
void SquadTask::write_results() const {
  if (options_.predictions.empty()) return;
  const auto quoted = [](const std::string& text) { return nlohmann::json(text).dump(-1, ' ', true); };
  std::string texts;
  for (std::size_t i = 0; i < predictions_.size(); ++i)
    texts += fmt::format("{}\n {}: {}", i > 0 ? "," : "", quoted(held_out_.questions[i].id),
                         quoted(predictions_[i]));
  write_text(options_.predictions, fmt::format("{{{}\n}}\n", texts));
}

void SquadTask::save(const std::filesystem::path& folder) const {
  save_checkpoint(folder, *model_, start_.tokenizer);
}

void SquadTask::load(const std::filesystem::path& folder) { load_parameters(*model_, folder); }

}  // namespace rueda::examples
