// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/tasks/lm_data.h"

#include <ATen/Functions.h>
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "examples/lib/data/batches.h"
#include "examples/lib/data/dummy.h"
#include "examples/lib/data/masking.h"
#include "examples/lib/model/masked_lm.h"
#include "examples/lib/training/tasks/bert_start.h"
#include "examples/lib/training/tasks/dummy_samples.h"

namespace rueda::examples {

namespace {

constexpr std::uint64_t kMadeUpHeldOut =
    0x68656c64'6f7574U;  // "heldout": other tokens than those to train on

LmText text_of(const LmDataOptions& options, const WordPieceTokenizer& tokenizer) {
  if (options.data.dummy) {
    return LmText::made_up(static_cast<std::size_t>(options.held_out), options.max_length,
                           tokenizer.vocab_size(), mix(options.seed, kMadeUpHeldOut));
  }
  return LmText::open(options.file, tokenizer, options.max_length, options.data);
}

TaskBatch tensors_of(const LmBatch& batch) {
  const BertInput input = to_input(batch);
  const at::Tensor labels = labels_of(batch);
  return {{{"input_ids", input.input_ids},
           {"valid", input.valid},
           {"labels", labels},
           {"masked", indices_of(labels.ne(kNoLabel))},
           {"tokens", indices_of(input.valid)}}};
}

}  // namespace

LmText LmText::open(const std::filesystem::path& file, const WordPieceTokenizer& tokenizer,
                    std::int64_t max_length, const DataOptions& options) {
  LmText text;
  text.file_ = file.string();
  text.corpus_ = TextCorpus::open(file, tokenizer, static_cast<std::int32_t>(max_length), cache_of(options),
                                  options.on_bad);
  return text;
}

std::vector<std::string> LmText::words() const {
  return corpus_ ? corpus_->bad().words(file_) : std::vector<std::string>();
}

LmText LmText::made_up(std::size_t count, std::int64_t length, std::size_t vocab_size, std::uint64_t seed) {
  LmText text;
  const DummyShape shape{.columns = length, .vocab_size = static_cast<std::int64_t>(vocab_size)};
  for (std::uint64_t position = 0; position < count; ++position) {
    const std::vector<std::int64_t> ids = dummy_lm(shape, seed, {&position, 1}).input_ids;
    text.made_up_.push_back({{ids.begin(), ids.end()}});
  }
  return text;
}

std::vector<NumberedWindow> LmText::windows(std::span<const std::size_t> numbers) const {
  std::vector<NumberedWindow> chosen;
  chosen.reserve(numbers.size());
  for (const std::size_t number : numbers) chosen.push_back({number, (*this)[number]});
  return chosen;
}

void check_guessable(std::span<const NumberedWindow> windows, const WordPieceTokenizer& tokenizer,
                     const std::string& source) {
  const auto guessable = [&](std::int32_t id) { return is_maskable(id, tokenizer); };
  const auto has_any = [&](const NumberedWindow& window) {
    return std::ranges::any_of(window.ids, guessable);
  };
  if (std::ranges::any_of(windows, has_any)) return;
  throw std::runtime_error(fmt::format("{}: the vocabulary knows no word of the {} windows that are measured",
                                       source, windows.size()));
}

LmData::LmData(const LmDataOptions& options, const WordPieceTokenizer& tokenizer)
    : options_(options), tokenizer_(tokenizer), text_(text_of(options, tokenizer)) {
  const auto held_out = static_cast<std::size_t>(options.held_out);
  if (!options.data.dummy && held_out >= text_.size()) {
    throw std::runtime_error(fmt::format(
        "{} has {} windows of up to {} tokens, of which --held-out {} leaves none to train on; give fewer",
        options.file.string(), text_.size(), options.max_length, held_out));
  }
  const std::size_t first = text_.size() - held_out;
  for (std::size_t i = first; i < text_.size(); ++i) held_out_.push_back({i, text_[i]});
  check_guessable(held_out_, tokenizer, options.data.dummy ? "made-up data" : options.file.string());
  samples_ = options.data.dummy ? kDummySamples : first;
}

std::vector<std::string> LmData::settings() const {
  return {fmt::format("--held-out {}", options_.held_out),
          fmt::format("--max-length {}", options_.max_length), vocabulary_words(tokenizer_), count_words(),
          fmt::format("tokens {:08x}", text_.checksum())};
}

std::string LmData::count_words() const {
  const std::string count = options_.data.dummy ? "made-up" : std::to_string(samples());
  return fmt::format("{} training windows and {} held-out ones", count, held_out_.size());
}

std::vector<std::string> LmData::words() const {
  std::vector<std::string> lines{count_words()};
  for (std::string& line : text_.words()) lines.push_back(std::move(line));
  return lines;
}

TaskBatch LmData::make_batch(std::span<const Sample> chosen) const {
  if (options_.data.dummy) {
    const auto words = static_cast<std::int64_t>(tokenizer_.vocab_size());
    return tensors_of(
        dummy_lm({.columns = options_.max_length, .vocab_size = words}, options_.seed, positions_of(chosen)));
  }
  std::vector<MaskedWindow> rows;
  for (const Sample& sample : chosen)
    rows.push_back(mask(text_[sample.index], tokenizer_, options_.seed, sample.position));
  return tensors_of(pad(rows, tokenizer_.pad_id()));
}

std::optional<LmData::Counts> LmData::counts(std::span<const Sample> chosen) const {
  if (options_.data.dummy) return std::nullopt;
  const auto maskable = [&](std::int32_t id) { return is_maskable(id, tokenizer_); };
  Counts counts;
  for (const Sample& sample : chosen) {
    const std::span<const std::int32_t> ids = text_[sample.index];
    counts.masked +=
        static_cast<double>(masked_count(static_cast<std::size_t>(std::ranges::count_if(ids, maskable))));
    counts.tokens += static_cast<double>(ids.size());
  }
  return counts;
}

std::vector<Metric> LmData::evaluate(BertForMaskedLM& model, Autocast autocast) const {
  const LmEvaluation found = evaluate_lm(model, held_out_, tokenizer_,
                                         {.seed = options_.seed, .pseudo = false, .autocast = autocast});
  return {{"perplexity", found.perplexity}, {"loss", found.loss}};
}

BertInput input_of(const TaskBatch& batch) {
  const at::Tensor& ids = batch["input_ids"];
  return {ids, at::zeros_like(ids), batch["valid"]};
}

}  // namespace rueda::examples
