// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/lm_data.h"

#include <ATen/Functions.h>
#include <fmt/format.h>

#include <stdexcept>

#include "examples/lib/data/masking.h"
#include "examples/lib/model/masked_lm.h"

namespace rueda::examples {

LmData::LmData(const LmDataOptions& options, const WordPieceTokenizer& tokenizer)
    : options_(options), tokenizer_(tokenizer) {
  windows_ = read_text_windows(options.file, tokenizer, static_cast<std::int32_t>(options.max_length));
  const auto held_out = static_cast<std::size_t>(options.held_out);
  if (held_out >= windows_.size()) {
    throw std::runtime_error(fmt::format(
        "{} has {} windows of up to {} tokens, of which --held-out {} leaves none to train on; give fewer",
        options.file.string(), windows_.size(), options.max_length, held_out));
  }
  for (std::size_t i = windows_.size() - held_out; i < windows_.size(); ++i)
    held_out_.push_back({i, windows_[i].input_ids});
}

std::vector<std::string> LmData::settings() const {
  return {fmt::format("--held-out {}", options_.held_out),
          fmt::format("--max-length {}", options_.max_length), words()};
}

std::string LmData::words() const {
  return fmt::format("{} training windows and {} held-out ones", samples(), held_out_.size());
}

TaskBatch LmData::make_batch(std::span<const Sample> chosen) const {
  std::vector<MaskedWindow> rows;
  for (const Sample& sample : chosen)
    rows.push_back(mask(windows_[sample.index].input_ids, tokenizer_, options_.seed, sample.position));
  const LmBatch batch = pad(rows, tokenizer_.pad_id());
  const BertInput input = to_input(batch);
  return {{{"input_ids", input.input_ids}, {"valid", input.valid}, {"labels", labels_of(batch)}}};
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
