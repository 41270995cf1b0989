// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/options/distill_options.h"

#include "examples/lib/data/files/sample_file.h"

namespace rueda::examples {
namespace {

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

void read_student(const std::string& value, DistillOptions& options) {
  if (value == "every-second-layer") return;
  options.student = value == "random" ? StudentStart::random : StudentStart::checkpoint;
  if (options.student == StudentStart::checkpoint) options.student_folder = value;
}

Flags distill_flags(DistillOptions& options) {
  Flags flags("distill", kDistillUsage);
  DistillationOptions& losses = options.losses;
  flags.path("data", options.data, "FILE",
             "plain text, WikiText, or reviews separated by tabs from their labels; default: the sample");
  flags.path("teacher", options.teacher, "DIR",
             "checkpoint: config.json, model.safetensors, tokenizer.json or vocab.txt");
  flags.text(
      "student", [&options](const std::string& value) { read_student(value, options); }, "WHAT",
      "every-second-layer of the teacher (the default), random, or the folder of a checkpoint");
  flags.number("alpha-mlm", losses.alpha_mlm, "X", "weight of the masked tokens' cross entropy [2]");
  flags.number("alpha-ce", losses.alpha_ce, "X", "weight of the divergence between teacher and student [5]");
  flags.number("alpha-cos", losses.alpha_cos, "X", "weight of 1 - cosine of their last hidden states [1]");
  flags.number("temperature", losses.temperature, "T", "at which teacher and student are compared [2]");
  flags.choice("compare", losses.compared, kCompared, "all|masked",
               "tokens at which they are compared [all]");
  flags.integer("teacher-steps", options.teacher_steps, 0, "N",
                "training steps of the sample's teacher [200]");
  flags.integer("held-out", options.held_out, 1, "N",
                "last windows kept for evaluation [64; without --teacher 32]");
  flags.integer("max-length", options.max_length, 8, "N", "tokens in a window [128; without --teacher 64]");
  add_data_flags(flags, options.source);
  add_training_flags(flags, options);
  return flags;
}

// The settings that differ without --teacher, when all is small.
void set_sample_defaults(DistillOptions& options) {
  options.held_out = 32;
  options.batch = 16;
  options.max_length = 64;
  options.learning_rate = 1e-3;
  options.steps = 150;
}

void check_together(const Flags& flags, const DistillOptions& options) {
  check_data_flags(flags, options.source);
  const DistillationOptions& losses = options.losses;
  if (losses.temperature == 0) throw UsageError("--temperature is 0; it must be greater");
  if (losses.alpha_mlm + losses.alpha_ce + losses.alpha_cos == 0) {
    throw UsageError("--alpha-mlm, --alpha-ce and --alpha-cos are all 0: there is nothing to learn");
  }
  if (options.elastic && !options.teacher) {
    throw UsageError(
        "--elastic yes needs --teacher: a new rank would train the sample's teacher while the others train "
        "the student");
  }
  if (options.teacher && flags.given("teacher-steps")) {
    throw UsageError("--teacher-steps is for the sample's teacher, and --teacher names another");
  }
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
  DistillOptions defaults;
  return distill_flags(defaults).help();
}

std::optional<DistillOptions> parse_distill_options(int argument_count, const char* const* arguments) {
  DistillOptions options;
  options.program = "distill";
  options.task = "distill";
  Flags flags = distill_flags(options);
  if (!flags.parse(argument_count, arguments)) return std::nullopt;
  if (!flags.given("teacher")) set_sample_defaults(options);
  flags.apply();
  check_together(flags, options);
  complete_training_options(flags, options);
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
