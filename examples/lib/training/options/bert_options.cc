// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/options/bert_options.h"

#include <sstream>

#include "examples/lib/data/files/sample_file.h"

namespace rueda::examples {
namespace {

namespace po = boost::program_options;

constexpr const char* kUsage =
    "usage: train_bert [flags]\n"
    "Trains a BERT, by one process or by those that ruedarun starts:\n"
    "  ruedarun -np 2 train_bert --data train.json --model CHECKPOINT\n"
    "Without --model a small random BERT learns the sample that comes with Rueda.\n\nflags";

constexpr Choices<const char*, 3> kTasks{{{"squad", "squad"}, {"nq", "nq"}, {"mlm", "mlm"}}};

po::options_description description() {
  const auto text = [] { return po::value<std::string>(); };
  const auto whole = [] { return po::value<std::int64_t>(); };
  const auto number = [] { return po::value<double>(); };
  po::options_description flags(kUsage, 110);
  // clang-format off
  flags.add_options()
      ("help", "show this")
      ("task", text()->value_name("NAME"), "what to learn: squad (the default): mark the answer to a question; nq: that in long documents, and its type; mlm: guess masked tokens")
      ("data", text()->value_name("FILE"), "squad: SQuAD JSON, v1.1 or v2.0; nq: simplified Natural Questions, JSON lines, also gzip; mlm: plain text, WikiText, or reviews separated by tabs from their labels; default: a sample")
      ("model", text()->value_name("DIR"), "checkpoint: config.json, model.safetensors, tokenizer.json or vocab.txt")
      ("held-out", whole()->value_name("N"), "last articles, of nq examples, of mlm windows, kept for evaluation [8; without --model 4; nq 100; 20; mlm 64; 32]; squad, nq: 0 measures on what is trained on")
      ("max-length", whole()->value_name("N"), "tokens in a window [256; without --model 128; nq 512; 128; mlm 128; 64]")
      ("stride", whole()->value_name("N"), "squad, nq: tokens that windows share [a quarter of --max-length]")
      ("null-score-threshold", number()->value_name("X"), "squad v2.0: no answer is predicted where its score surpasses the best span's by more than that [0]")
      ("predictions", text()->value_name("FILE"), "squad: the answers of the last evaluation, JSON of text by id, as SQuAD's scripts read it")
      ("unknown-share", number()->value_name("X"), "nq: of the windows without answer, how many are trained on [0.02; without --model 1]")
      ("augment", text()->value_name("yes|no"), "nq: windows are moved and words of questions masked, anew at each reading [yes]")
      ("question-dropout", number()->value_name("P"), "nq: of the words of a question, how many are masked [0.05]");
  // clang-format on
  flags.add(data_flags()).add(training_flags());
  return flags;
}

// What differs without --model, when a small random BERT learns.
void set_small_defaults(BertOptions& options) {
  options.held_out = 4;
  options.batch = 16;
  options.max_length = 128;
  options.learning_rate = 1e-3;
}

void set_mlm_defaults(BertOptions& options, bool small) {
  options.held_out = small ? 32 : 64;
  options.max_length = small ? 64 : 128;
}

void set_nq_defaults(BertOptions& options, bool small) {
  options.held_out = small ? 20 : 100;
  options.max_length = small ? 128 : 512;
  if (small) options.unknown_share = 1;
}

// Flags that some tasks have, given for another.
void check_flags_of_tasks(const Flags& flags, const std::string& task) {
  const auto only = [&](const char* flag, bool fits, const char* whose) {
    if (flags.given(flag) && !fits)
      throw UsageError(fmt::format("--{} is for {}, and --task is {}", flag, whose, task));
  };
  only("stride", task != "mlm", "windows that share tokens, of squad or nq");
  only("cache", task != "squad", "what is kept tokenized, of nq or mlm");
  only("null-score-threshold", task == "squad", "squad");
  only("predictions", task == "squad", "squad");
  for (const char* flag : {"unknown-share", "augment", "question-dropout"}) only(flag, task == "nq", "nq");
}

void read_squad_flags(const Flags& flags, BertOptions& options) {
  if (flags.given("null-score-threshold"))
    flags.finite("null-score-threshold", options.null_score_threshold.emplace());
  flags.path("predictions", options.predictions);
  if (!options.source.dummy) return;
  for (const char* flag : {"null-score-threshold", "predictions"}) {
    if (flags.given(flag))
      throw UsageError(fmt::format("--dummy yes has no questions of a file, and --{} is given", flag));
  }
}

const char* sample_of(const std::string& task) {
  if (task == "nq") return "nq_sample.jsonl";
  return task == "mlm" ? "text_sample.txt" : "squad_sample.json";
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
  const bool nq = options.task == "nq";
  if (options.task == "mlm") set_mlm_defaults(options, !flags.given("model"));
  if (nq) set_nq_defaults(options, !flags.given("model"));
  check_flags_of_tasks(flags, options.task);
  flags.path("data", options.data);
  read_data_flags(flags, options.source);
  if (flags.given("model")) flags.path("model", options.model.emplace());
  flags.integer("held-out", options.held_out, options.task == "mlm" ? 1 : 0);
  flags.integer("max-length", options.max_length, 8);
  options.stride = options.max_length / 4;
  flags.integer("stride", options.stride, 0);
  read_squad_flags(flags, options);
  flags.share("unknown-share", options.unknown_share);
  flags.choice("augment", options.augment, kYesNo);
  flags.number("question-dropout", options.question_dropout, 1);
  if (!options.augment && flags.given("question-dropout"))
    throw UsageError("--question-dropout is a part of what --augment no leaves out");
  read_training_flags(flags, options);
  if (options.data.empty()) options.data = sample_file(sample_of(options.task));
  return options;
}

}  // namespace rueda::examples
