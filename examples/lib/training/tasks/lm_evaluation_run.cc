// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/tasks/lm_evaluation_run.h"

#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <utility>

#include <rueda/torch.h>
#include "examples/lib/data/masking.h"
#include "examples/lib/model/checkpoint.h"
#include "examples/lib/model/masked_lm.h"
#include "examples/lib/reporting/progress.h"
#include "examples/lib/reporting/run_report.h"
#include "examples/lib/training/job_start.h"
#include "examples/lib/training/options/compute_device.h"
#include "examples/lib/training/tasks/bert_start.h"
#include "examples/lib/training/tasks/lm_data.h"
#include "examples/lib/training/tasks/lm_evaluation.h"
#include "examples/lib/training/tasks/lm_start.h"
#include "examples/lib/training/tensor_file.h"
#include "frameworks/torch/collectives/agreement.h"

namespace rueda::examples {
namespace {

constexpr std::size_t kMadeUpWindows = 64;

// The settings that all ranks must agree on, a line each.
std::vector<std::string> settings_of(const EvaluateLmOptions& options, const BertForMaskedLM& model,
                                     std::span<const NumberedWindow> windows) {
  std::size_t tokens = 0;
  for (const NumberedWindow& window : windows) tokens += window.ids.size();
  return {fmt::format("--seed {}", options.seed),
          fmt::format("--subset {}", options.subset),
          fmt::format("--max-length {}", options.max_length),
          fmt::format("--batch {}", options.batch),
          fmt::format("--pseudo {}", name_of(options.pseudo, kYesNo)),
          fmt::format("--device {}", device_word(options.device)),
          fmt::format("{} windows with {} tokens", windows.size(), tokens),
          fmt::format("a model with parameters {:016x}", parameters_hash(model))};
}

void dump_masks(const EvaluateLmOptions& options, const WordPieceTokenizer& tokenizer,
                std::span<const NumberedWindow> windows) {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (const NumberedWindow& window : windows) {
    const MaskedWindow masked = mask(window.ids, tokenizer, options.seed, window.number);
    tensors.emplace_back(fmt::format("{}.input_ids", window.number), at::tensor(masked.input_ids, at::kLong));
    tensors.emplace_back(fmt::format("{}.labels", window.number), at::tensor(masked.labels, at::kLong));
  }
  write_tensors(options.dump_batches, tensors);
}

LmEvaluation evaluate_with_progress(BertForMaskedLM& model, std::span<const NumberedWindow> windows,
                                    const WordPieceTokenizer& tokenizer, const EvaluateLmOptions& options) {
  std::optional<Progress> progress;
  return evaluate_lm(
      model, windows, tokenizer,
      {.batch = options.batch, .seed = options.seed, .pseudo = options.pseudo, .autocast = options.autocast},
      [&](std::int64_t, std::int64_t parts, double loss) {
        if (!progress) progress.emplace(parts, size());
        progress->step_done(loss);
      });
}

void report(const EvaluateLmOptions& options, const BertStart& start, at::Device device,
            const LmEvaluation& found, std::size_t windows, double seconds) {
  std::string line = fmt::format("{} masked tokens: loss {:.4f}, perplexity {:.4f}", found.masked_tokens,
                                 found.loss, found.perplexity);
  nlohmann::ordered_json json = {{"task", "evaluate_lm"},
                                 {"model", start.origin.empty() ? "random" : as_utf8(start.origin)},
                                 {"data", as_utf8(options.data.string())},
                                 {"ranks", size()},
                                 {"device", kind_of(device)},
                                 {"windows", windows},
                                 {"loss", found.loss},
                                 {"perplexity", found.perplexity},
                                 {"pseudo_perplexity", nullptr},
                                 {"tokens", found.tokens},
                                 {"masked_tokens", found.masked_tokens},
                                 {"seconds", seconds}};
  if (found.pseudo_perplexity) {
    json["pseudo_perplexity"] = *found.pseudo_perplexity;
    line += fmt::format("; {} tokens: pseudo-perplexity {:.4f}", found.tokens, *found.pseudo_perplexity);
  }
  fmt::print("{}\n", line);
  write_report(options.summary, json);
  fmt::print("results in {}\n", options.summary.string());
}

// A model, the text that it is measured on, and the windows of it that are chosen.
struct Subject {
  BertStart start;
  ReadLm lm;
  LmText text;
  std::vector<NumberedWindow> windows;
};

Subject read_subject(const EvaluateLmOptions& options) {
  BertStart start = read_bert_start(StartOptions{
      .model = options.model, .vocabulary = options.source.vocabulary, .max_length = options.max_length});
  ReadLm lm = read_lm(start, options.seed, options.dtype);
  LmText text =
      options.source.dummy
          ? LmText::made_up(kMadeUpWindows, options.max_length, start.tokenizer.vocab_size(), options.seed)
          : LmText::open(options.data, start.tokenizer, options.max_length, options.source);
  std::vector<NumberedWindow> windows = text.windows(subset(text.size(), options.subset, options.seed));
  check_guessable(windows, start.tokenizer, options.data.string());
  check_writable(options.summary);
  if (!options.dump_batches.empty()) check_writable(options.dump_batches);
  return {std::move(start), std::move(lm), std::move(text), std::move(windows)};
}

}  // namespace

void run_lm_evaluation(const EvaluateLmOptions& options) {
  const Subject subject = make_on_all_ranks([&] { return read_subject(options); });
  const auto& [start, lm, text, windows] = subject;
  BertForMaskedLM& model = *lm.model;

  begin_job();
  check_agreement("evaluate_lm.settings", "settings of evaluate_lm", settings_of(options, model, windows),
                  default_runtime());
  const at::Device device = agree_on_device(options.device);
  model.to(device);
  if (rank() == 0) {
    fmt::print("{}\n{} of {} windows, {} ranks, computing on {}\n", lm.words, windows.size(), text.size(),
               size(), kind_of(device));
    for (const std::string& line : text.words()) fmt::print("{}\n", line);
    if (!options.dump_batches.empty()) dump_masks(options, start.tokenizer, windows);
  }
  const auto begin = std::chrono::steady_clock::now();
  const LmEvaluation found = evaluate_with_progress(model, windows, start.tokenizer, options);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!std::isfinite(found.loss))
    end_job(fmt::format("the loss of {} is not finite, though its parameters are; take another checkpoint",
                        start.origin.empty() ? "the model" : start.origin));
  if (rank() == 0) report(options, start, device, found, windows.size(), seconds);
  shutdown();
}

}  // namespace rueda::examples
