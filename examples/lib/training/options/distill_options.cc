// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/options/distill_options.h"

#include <sstream>

#include "examples/lib/data/files/sample_file.h"

namespace rueda::examples {
namespace {

namespace po = boost::program_options;

constexpr const char* kDistillUsage =
    "usage: distill [flags]\n"
    "Trains a student BERT to guess masked tokens as a larger teacher does, by one process or by those that\n"
    "ruedarun starts:\n"
    "  ruedarun -np 2 distill --data text.txt --teacher CHECKPOINT\n"
    "CHECKPOINT has a masked-LM head: what train_bert --task mlm writes. Without --teacher a small BERT "
    "learns\n"
    "the sample that comes with Rueda, and then teaches.\n\nflags";

constexpr Choices<ComparedTokens, 2> kCompared{
    {{"all", ComparedTokens::all}, {"masked", ComparedTokens::masked}}};

po::options_description distill_flags() {
  const auto text = [] { return po::value<std::string>(); };
  const auto whole = [] { return po::value<std::int64_t>(); };
  const auto number = [] { return po::value<double>(); };
  po::options_description flags(kDistillUsage, 110);
  // clang-format off
  flags.add_options()
      ("help", "show this")
      ("data", text()->value_name("FILE"), "plain text, WikiText, or reviews separated by tabs from their labels; default: the sample")
      ("teacher", text()->value_name("DIR"), "checkpoint: config.json, model.safetensors, tokenizer.json or vocab.txt")
      ("student", text()->value_name("WHAT"), "every-second-layer of the teacher (the default), random, or the folder of a checkpoint")
      ("alpha-mlm", number()->value_name("X"), "weight of the masked tokens' cross entropy [2]")
      ("alpha-ce", number()->value_name("X"), "weight of the divergence between teacher and student [5]")
      ("alpha-cos", number()->value_name("X"), "weight of 1 - cosine of their last hidden states [1]")
      ("temperature", number()->value_name("T"), "at which teacher and student are compared [2]")
      ("compare", text()->value_name("all|masked"), "tokens at which they are compared [all]")
      ("teacher-steps", whole()->value_name("N"), "training steps of the sample's teacher [200]")
      ("held-out", whole()->value_name("N"), "last windows kept for evaluation [64; without --teacher 32]")
      ("max-length", whole()->value_name("N"), "tokens in a window [128; without --teacher 64]");
  // clang-format on
  flags.add(data_flags()).add(training_flags());
  return flags;
}

// What differs without --teacher, when all is small.
void set_sample_defaults(DistillOptions& options) {
  options.held_out = 32;
  options.batch = 16;
  options.max_length = 64;
  options.learning_rate = 1e-3;
  options.steps = 150;
}

void read_student(const Flags& flags, DistillOptions& options) {
  const std::string* value = flags.text("student");
  if (value == nullptr || *value == "every-second-layer") return;
  options.student = *value == "random" ? StudentStart::random : StudentStart::checkpoint;
  if (options.student == StudentStart::checkpoint) options.student_folder = *value;
}

std::string student_words(const DistillOptions& options) {
  switch (options.student) {
    case StudentStart::every_second_layer: return "every-second-layer";
    case StudentStart::random: return "random";
    case StudentStart::checkpoint: return "a checkpoint";
  }
  return "unknown";
}

}  // namespace

std::string distill_help_text() {
  std::ostringstream text;
  text << distill_flags();
  return text.str();
}

std::optional<DistillOptions> parse_distill_options(int argument_count, const char* const* arguments) {
  const Flags flags = Flags::parse(distill_flags(), "distill", argument_count, arguments);
  if (flags.given("help")) return std::nullopt;
  DistillOptions options;
  options.program = "distill";
  options.task = "distill";
  if (!flags.given("teacher")) set_sample_defaults(options);
  flags.path("data", options.data);
  read_data_flags(flags, options.source);
  if (flags.given("teacher")) flags.path("teacher", options.teacher.emplace());
  read_student(flags, options);
  DistillationOptions& losses = options.losses;
  flags.number("alpha-mlm", losses.alpha_mlm);
  flags.number("alpha-ce", losses.alpha_ce);
  flags.number("alpha-cos", losses.alpha_cos);
  flags.number("temperature", losses.temperature);
  flags.choice("compare", losses.compared, kCompared);
  if (losses.temperature == 0) throw UsageError("--temperature is 0; it must be greater");
  if (losses.alpha_mlm + losses.alpha_ce + losses.alpha_cos == 0) {
    throw UsageError("--alpha-mlm, --alpha-ce and --alpha-cos are all 0: there is nothing to learn");
  }
  if (options.teacher && flags.given("teacher-steps")) {
    throw UsageError("--teacher-steps is for the sample's teacher, and --teacher names another");
  }
  flags.integer("teacher-steps", options.teacher_steps, 0);
  flags.integer("held-out", options.held_out, 1);
  flags.integer("max-length", options.max_length, 8);
  read_training_flags(flags, options);
  if (options.data.empty()) options.data = sample_file("text_sample.txt");
  return options;
}

std::vector<std::string> distill_settings(const DistillOptions& options) {
  const DistillationOptions& losses = options.losses;
  return {fmt::format("--student {}", student_words(options)),
          fmt::format("--alpha-mlm {}", losses.alpha_mlm),
          fmt::format("--alpha-ce {}", losses.alpha_ce),
          fmt::format("--alpha-cos {}", losses.alpha_cos),
          fmt::format("--temperature {}", losses.temperature),
          fmt::format("--compare {}", name_of(losses.compared, kCompared))};
}

}  // namespace rueda::examples
