// SPDX-License-Identifier: Apache-2.0
// Running text for the training and the evaluation of language models.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "examples/lib/data/text_windows.h"
#include "examples/lib/model/bert_model.h"
#include "examples/lib/training/options/data_options.h"
#include "examples/lib/training/task.h"
#include "examples/lib/training/tasks/lm_evaluation.h"

namespace rueda::examples {

// Purpose: windows of word pieces by number: of a text, from the node's cache, or made up. Any thread.
class LmText {
 public:
  // Throws std::runtime_error naming the file.
  static LmText open(const std::filesystem::path& file, const WordPieceTokenizer& tokenizer,
                     std::int64_t max_length, const DataOptions& options);
  // Each of `length` tokens, drawn by the seed.
  static LmText made_up(std::size_t count, std::int64_t length, std::size_t vocab_size, std::uint64_t seed);

  std::size_t size() const { return corpus_ ? corpus_->size() : made_up_.size(); }
  // Tells people of the bad lines that were left out.
  std::vector<std::string> words() const;
  std::uint32_t checksum() const { return corpus_ ? corpus_->checksum() : 0; }  // of a text's tokens
  // Valid as long as this object, moved or not.
  std::span<const std::int32_t> operator[](std::size_t index) const {
    return corpus_ ? (*corpus_)[index] : std::span<const std::int32_t>(made_up_[index].input_ids);
  }
  std::vector<NumberedWindow> windows(std::span<const std::size_t> numbers) const;

 private:
  std::string file_;
  std::optional<TextCorpus> corpus_;
  std::vector<TextWindow> made_up_;
};

struct LmDataOptions {
  std::filesystem::path file;
  DataOptions data;
  std::int64_t max_length = 128;  // tokens in a window
  std::int64_t held_out = 64;     // windows
  std::uint64_t seed = 1;         // of the masks
};

// Throws std::runtime_error naming `source` when no token of these windows could be masked: the mean over
// nothing would be taken for a perfect model.
void check_guessable(std::span<const NumberedWindow> windows, const WordPieceTokenizer& tokenizer,
                     const std::string& source);

// Purpose: the windows of a text, of which the last are held out, and their masks; or batches that are made
// up. Immutable once made: any number of threads may make batches. Refers to the tokenizer.
class LmData {
 public:
  // Throws std::runtime_error naming the file, or a text that is too short for the held-out part.
  LmData(const LmDataOptions& options, const WordPieceTokenizer& tokenizer);

  // These functions return the values for the Task functions of the same names.
  std::vector<std::string> settings() const;
  std::vector<std::string> words() const;
  std::size_t samples() const { return samples_; }
  // `input_ids`, `valid`, `labels`; `masked` and `tokens`: the indices of these (masked_lm.h). Each sample is
  // masked by its position.
  TaskBatch make_batch(std::span<const Sample> chosen) const;

  // How many tokens of these samples are masked, and how many there are, padding aside. Nothing for made-up
  // data, of which all samples have as many.
  struct Counts {
    double masked = 0;
    double tokens = 0;
  };
  std::optional<Counts> counts(std::span<const Sample> chosen) const;

  std::span<const NumberedWindow> held_out() const { return held_out_; }
  // Of the held-out data: perplexity and loss. Collective.
  std::vector<Metric> evaluate(BertForMaskedLM& model, Autocast autocast) const;
  static std::vector<std::string> metric_names() { return {"perplexity", "loss"}; }

 private:
  std::string count_words() const;

  const LmDataOptions options_;
  const WordPieceTokenizer& tokenizer_;
  const LmText text_;  // of made-up data the held-out part alone
  std::size_t samples_ = 0;
  std::vector<NumberedWindow> held_out_;
};

// Of a batch that make_batch() made.
BertInput input_of(const TaskBatch& batch);

}  // namespace rueda::examples
