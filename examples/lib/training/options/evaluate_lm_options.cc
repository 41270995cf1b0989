// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/options/evaluate_lm_options.h"

#include <sstream>

#include "examples/lib/data/files/sample_file.h"

namespace rueda::examples {
namespace {

namespace po = boost::program_options;

constexpr const char* kEvaluateLmUsage =
    "usage: evaluate_lm [flags]\n"
    "Measures how well a BERT guesses masked tokens, by one process or by those that ruedarun starts:\n"
    "  ruedarun -np 2 evaluate_lm --model CHECKPOINT --data text.txt\n"
    "The result is the same for any number of them.\n\nflags";

po::options_description evaluate_lm_flags() {
  const auto text = [] { return po::value<std::string>(); };
  const auto whole = [] { return po::value<std::int64_t>(); };
  po::options_description flags(kEvaluateLmUsage, 110);
  // clang-format off
  flags.add_options()
      ("help", "show this")
      ("data", text()->value_name("FILE"), "plain text, WikiText, or reviews separated by tabs from their labels; default: the sample")
      ("model", text()->value_name("DIR"), "checkpoint with a masked-LM head: config.json, model.safetensors, tokenizer.json or vocab.txt; default: a small random BERT")
      ("subset", po::value<double>()->value_name("X"), "share of the windows, drawn by the seed [1]")
      ("max-length", whole()->value_name("N"), "tokens in a window [128]")
      ("batch", whole()->value_name("N"), "rows in a forward pass [16]")
      ("seed", whole()->value_name("N"), "of the masks and the subset [1]")
      ("pseudo", text()->value_name("yes|no"), "pseudo-perplexity too: masks every token in turn [yes]")
      ("dtype", text()->value_name("NAME"), "of parameters: float32 (the default), bfloat16, float64")
      ("autocast", text()->value_name("TYPE"), "bf16: matrix products in bfloat16, parameters in float32; none (the default)")
      ("device", text()->value_name("NAME"), kDeviceHelp)
      ("output", text()->value_name("DIR"), "reports [runs/evaluate_lm]")
      ("summary", text()->value_name("FILE"), "results as JSON [OUTPUT/summary.json]")
      ("dump-batches", text()->value_name("FILE"), "the masked windows, as safetensors NUMBER.input_ids and NUMBER.labels");
  // clang-format on
  flags.add(data_flags());
  return flags;
}

}  // namespace

std::string evaluate_lm_help_text() {
  std::ostringstream text;
  text << evaluate_lm_flags();
  return text.str();
}

std::optional<EvaluateLmOptions> parse_evaluate_lm_options(int argument_count, const char* const* arguments) {
  const Flags flags = Flags::parse(evaluate_lm_flags(), "evaluate_lm", argument_count, arguments);
  if (flags.given("help")) return std::nullopt;
  EvaluateLmOptions options;
  flags.path("data", options.data);
  read_data_flags(flags, options.source);
  if (flags.given("model")) flags.path("model", options.model.emplace());
  flags.share("subset", options.subset);
  flags.integer("max-length", options.max_length, 8);
  flags.integer("batch", options.batch, 1);
  flags.integer("seed", options.seed, 0);
  flags.choice("pseudo", options.pseudo, kYesNo);
  read_number_types(flags, options.dtype, options.autocast);
  read_device(flags, options.device);
  std::filesystem::path output = "runs/evaluate_lm";
  flags.path("output", output);
  options.summary = output / "summary.json";
  flags.path("summary", options.summary);
  flags.path("dump-batches", options.dump_batches);
  if (options.data.empty()) options.data = sample_file("text_sample.txt");
  return options;
}

}  // namespace rueda::examples
