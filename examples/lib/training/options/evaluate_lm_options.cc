// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/options/evaluate_lm_options.h"

#include "examples/lib/data/files/sample_file.h"

namespace rueda::examples {
namespace {

constexpr const char* kEvaluateLmUsage =
    "usage: evaluate_lm [flags]\n"
    "Measures how well a BERT guesses masked tokens, by one process or by those that ruedarun starts:\n"
    "  ruedarun -np 2 evaluate_lm --model CHECKPOINT --data text.txt\n"
    "The result is the same for any number of them.\n\nflags";

// `output` is a folder of reports.
Flags evaluate_lm_flags(EvaluateLmOptions& options, std::filesystem::path& output) {
  Flags flags("evaluate_lm", kEvaluateLmUsage);
  flags.path("data", options.data, "FILE",
             "plain text, WikiText, or reviews separated by tabs from their labels; default: the sample");
  flags.path("model", options.model, "DIR",
             "checkpoint with a masked-LM head: config.json, model.safetensors, tokenizer.json or vocab.txt; "
             "default: a small "
             "random BERT");
  flags.share("subset", options.subset, "X", "share of the windows, drawn by the seed [1]");
  flags.integer("max-length", options.max_length, 8, "N", "tokens in a window [128]");
  flags.integer("batch", options.batch, 1, "N", "rows in a forward pass [16]");
  flags.integer("seed", options.seed, 0, "N", "of the masks and the subset [1]");
  flags.choice("pseudo", options.pseudo, kYesNo, "yes|no",
               "pseudo-perplexity too: masks every token in turn [yes]");
  add_number_types(flags, options.dtype, options.autocast);
  add_device_flag(flags, options.device);
  flags.path("output", output, "DIR", "reports [runs/evaluate_lm]");
  flags.path("summary", options.summary, "FILE", "results as JSON [OUTPUT/summary.json]");
  flags.path("dump-batches", options.dump_batches, "FILE",
             "the masked windows, as safetensors NUMBER.input_ids and NUMBER.labels");
  add_data_flags(flags, options.source);
  return flags;
}

}  // namespace

std::string evaluate_lm_help_text() {
  EvaluateLmOptions defaults;
  std::filesystem::path output;
  return evaluate_lm_flags(defaults, output).help();
}

std::optional<EvaluateLmOptions> parse_evaluate_lm_options(int argument_count, const char* const* arguments) {
  EvaluateLmOptions options;
  std::filesystem::path output = "runs/evaluate_lm";
  Flags flags = evaluate_lm_flags(options, output);
  if (!flags.parse(argument_count, arguments)) return std::nullopt;
  flags.apply();
  check_data_flags(flags, options.source);
  check_number_types(options.dtype, options.autocast);
  if (!flags.given("summary")) options.summary = output / "summary.json";
  if (options.data.empty()) options.data = sample_file("text_sample.txt");
  return options;
}

}  // namespace rueda::examples
