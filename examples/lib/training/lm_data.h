// SPDX-License-Identifier: Apache-2.0
// Running text as what language models learn from and are measured on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "examples/lib/data/text_windows.h"
#include "examples/lib/model/bert_model.h"
#include "examples/lib/training/lm_evaluation.h"
#include "examples/lib/training/task.h"

namespace rueda::examples {

struct LmDataOptions {
  std::filesystem::path file;
  std::int64_t max_length = 128;  // tokens in a window
  std::int64_t held_out = 64;     // windows
  std::uint64_t seed = 1;         // of the masks
};

// Purpose: the windows of a text, of which the last are held out, and their masks. Immutable once made: any
// number of threads may make batches. Refers to the tokenizer.
class LmData {
 public:
  // Throws std::runtime_error naming the file, or that it is too short for what is held out.
  LmData(const LmDataOptions& options, const WordPieceTokenizer& tokenizer);

  // What Task wants of these.
  std::vector<std::string> settings() const;
  std::string words() const;
  std::size_t samples() const { return windows_.size() - held_out_.size(); }
  // `input_ids`, `valid`, `labels`; each sample is masked by its position.
  TaskBatch make_batch(std::span<const Sample> chosen) const;

  std::span<const NumberedWindow> held_out() const { return held_out_; }
  // Of what was held out: perplexity and loss. Collective.
  std::vector<Metric> evaluate(BertForMaskedLM& model, Autocast autocast) const;
  static std::vector<std::string> metric_names() { return {"perplexity", "loss"}; }

 private:
  const LmDataOptions options_;
  const WordPieceTokenizer& tokenizer_;
  std::vector<TextWindow> windows_;
  std::vector<NumberedWindow> held_out_;
};

// Of a batch that make_batch() made.
BertInput input_of(const TaskBatch& batch);

}  // namespace rueda::examples
