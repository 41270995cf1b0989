// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/bert_options.h"

#include <sstream>

#include "examples/lib/data/sample_file.h"

namespace rueda::examples {
namespace {

namespace po = boost::program_options;

constexpr const char* kUsage =
    "usage: train_bert [flags]\n"
    "Trains a BERT, by one process or by those that ruedarun starts:\n"
    "  ruedarun -np 2 train_bert --data train.json --model CHECKPOINT\n"
    "Without --model a small random BERT learns the sample that comes with Rueda.\n\nflags";

constexpr Choices<const char*, 2> kTasks{{{"squad", "squad"}, {"mlm", "mlm"}}};

po::options_description description() {
  const auto text = [] { return po::value<std::string>(); };
  const auto whole = [] { return po::value<std::int64_t>(); };
  po::options_description flags(kUsage, 110);
  // clang-format off
  flags.add_options()
      ("help", "show this")
      ("task", text()->value_name("NAME"), "what to learn: squad (the default): mark the answer to a question; mlm: guess masked tokens")
      ("data", text()->value_name("FILE"), "squad: SQuAD v1.1 JSON; mlm: plain text, WikiText, or reviews separated by tabs from their labels; default: a sample")
      ("model", text()->value_name("DIR"), "checkpoint: config.json, model.safetensors, vocab.txt")
      ("held-out", whole()->value_name("N"), "last articles, or of mlm windows, kept for evaluation [8; without --model 4; mlm 64; 32]")
      ("max-length", whole()->value_name("N"), "tokens in a window [256; without --model 128; mlm 128; 64]")
      ("stride", whole()->value_name("N"), "squad: tokens that windows share [64; without --model 32]");
  // clang-format on
  flags.add(data_flags()).add(training_flags());
  return flags;
}

// What differs without --model, when a small random BERT learns.
void set_small_defaults(BertOptions& options) {
  options.held_out = 4;
  options.batch = 16;
  options.max_length = 128;
  options.stride = 32;
  options.learning_rate = 1e-3;
}

void set_mlm_defaults(BertOptions& options, bool small) {
  options.held_out = small ? 32 : 64;
  options.max_length = small ? 64 : 128;
}

}  // namespace

std::string bert_help_text() {
  std::ostringstream text;
  text << description();
  return text.str();
}

std::optional<BertOptions> parse_bert_options(int argument_count, const char* const* arguments) {
  const Flags flags = Flags::parse(description(), "train_bert", argument_count, arguments);
  if (flags.given("help")) return std::nullopt;
  BertOptions options;
  if (!flags.given("model")) set_small_defaults(options);
  const char* task = kTasks.front().second;
  flags.choice("task", task, kTasks);
  options.task = task;
  const bool mlm = options.task == "mlm";
  if (mlm) set_mlm_defaults(options, !flags.given("model"));
  if (mlm && flags.given("stride"))
    throw UsageError("--stride is for --task squad: windows of mlm share nothing");
  for (const char* flag : {"dummy", "cache"}) {
    if (!mlm && flags.given(flag)) throw UsageError(fmt::format("--{} is for --task mlm", flag));
  }
  flags.path("data", options.data);
  read_data_flags(flags, options.source);
  if (flags.given("model")) flags.path("model", options.model.emplace());
  flags.integer("held-out", options.held_out, 1);
  flags.integer("max-length", options.max_length, 8);
  flags.integer("stride", options.stride, 0);
  read_training_flags(flags, options);
  if (options.data.empty()) options.data = sample_file(mlm ? "text_sample.txt" : "squad_sample.json");
  return options;
}

}  // namespace rueda::examples
