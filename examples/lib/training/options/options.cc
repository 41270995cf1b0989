// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/options/options.h"

#include <algorithm>

#include "core/base/error.h"

namespace rueda::examples {
namespace {

constexpr std::int64_t kMostWorkers = 1024;

constexpr Choices<OptimizerKind, 5> kOptimizers{{{"adamw", OptimizerKind::adamw},
                                                 {"sgd", OptimizerKind::sgd},
                                                 {"radam", OptimizerKind::radam},
                                                 {"lamb", OptimizerKind::lamb},
                                                 {"lars", OptimizerKind::lars}}};
constexpr Choices<Compression, 4> kCompressions{{{"none", Compression::none},
                                                 {"fp16", Compression::fp16},
                                                 {"bf16", Compression::bf16},
                                                 {"topk", Compression::topk}}};
constexpr Choices<ParameterType, 3> kTypes{{{"float32", ParameterType::float32},
                                            {"bfloat16", ParameterType::bfloat16},
                                            {"float64", ParameterType::float64}}};
constexpr Choices<std::optional<bool>, 3> kOverlap{{{"auto", std::nullopt}, {"on", true}, {"off", false}}};
constexpr Choices<Autocast, 2> kAutocasts{{{"none", Autocast::none}, {"bf16", Autocast::bf16}}};

void read_sync(const std::string& value, TrainOptions& options) {
  const bool old_name = value == "meet";  // of barrier, until version 0.2
  if (value == "never" || value == "barrier" || old_name) {
    options.sync = value == "never" ? TrainOptions::Sync::never : TrainOptions::Sync::barrier;
    return;
  }
  try {
    options.schedule = SyncSchedule::parse(value);
    options.sync = TrainOptions::Sync::by_schedule;
  } catch (const InvalidArgument& error) {
    throw UsageError(fmt::format("--sync: {}, never, or barrier", error.what()));
  }
}

void check_elastic(const TrainOptions& options) {
  if (!options.elastic) return;
  if (!options.synchronize() || options.schedule != SyncSchedule::every_step()) {
    throw UsageError(
        fmt::format("--elastic yes is for --sync every_step, and --sync is {}: what ranks have "
                    "kept for later would be lost with them",
                    sync_words(options)));
  }
  if (options.device.kind == DeviceChoice::Kind::automatic) {
    throw UsageError(
        "--elastic yes with --device auto: a new rank cannot know what the others have; name cpu or cuda");
  }
}

void check_together(const TrainOptions& options) {
  check_elastic(options);
  if (options.workers > kMostWorkers)
    throw UsageError(
        fmt::format("--workers is {}; at most {} threads make batches", options.workers, kMostWorkers));
  if (options.shard && !options.synchronize()) {
    throw UsageError(
        fmt::format("--shard yes needs ranks that synchronise, and --sync is {}", sync_words(options)));
  }
  if (options.shard &&
      (options.optimizer == OptimizerKind::lamb || options.optimizer == OptimizerKind::lars)) {
    throw UsageError(
        fmt::format("--shard yes needs an optimizer that steps each element by itself, and {} needs norms of "
                    "whole parameters; choose adamw, sgd or radam",
                    optimizer_word(options)));
  }
  if (!options.synchronize() && (options.checkpoint_every > 0 || options.resume)) {
    throw UsageError(
        fmt::format("--checkpoint-every and --resume are for ranks that synchronise, and --sync is {}: each "
                    "rank has a model of its own",
                    sync_words(options)));
  }
}

void add_synchronisation_flags(Flags& flags, TrainOptions& options) {
  flags.text(
      "sync", [&options](const std::string& value) { read_sync(value, options); }, "WHEN",
      "every_step (the default), accumulate:N, local_sgd:N, diloco:N[:LR[:MOMENTUM]], "
      "adaptive[:TARGET[:MOST[:STRETCH]]], one_step_late; never: each rank trains by itself; barrier: so, "
      "but they wait "
      "for each other in every step");
  flags.choice("compression", options.compression, kCompressions, "TYPE",
               "of gradients between hosts: none (the default), fp16, bf16 or topk");
  flags.share("compression-share", options.compression_share, "X",
              "of the elements, how many travel with topk [0.01]");
  flags.integer("low-rank", options.low_rank, 0, "N",
                "gradients travel as factors of N columns (PowerSGD), 0 for whole ones [0]");
  flags.choice("overlap", options.overlap, kOverlap, "auto|on|off",
               "reduce gradients while backward runs [auto: where cores or a network have time]");
  flags.choice("shard", options.shard, kYesNo, "yes|no",
               "each rank steps a part and keeps its state only [no]");
  flags.choice("elastic", options.elastic, kYesNo, "yes|no",
               "commit after each step, go on without lost ranks, and let new ones in: ruedarun --min-np "
               "[no]");
}

void add_output_flags(Flags& flags, TrainOptions& options) {
  flags.integer("evaluate-every", options.evaluate_every, 0, "N",
                "evaluate after every N steps too, 0 for at the end only [0]");
  flags.integer("checkpoint-every", options.checkpoint_every, 0, "N",
                "save all that training needs to go on, in OUTPUT/checkpoints, after every N steps; 0: on "
                "SIGTERM only [0]");
  flags.integer("keep", options.keep, 1, "N", "the newest so many checkpoints [3]");
  flags.path_or_none("resume", options.resume, "[DIR]",
                     "go on from a checkpoint, or the newest whole one in DIR [OUTPUT/checkpoints]");
  flags.choice("allow-code", options.allow_code, kYesNo, "yes|no",
               "also resume from optimizer*.pt of older versions, which can run code of their writer [no]");
  flags.path("output", options.output, "DIR", "checkpoint and reports [runs/TASK]");
  flags.path("summary", options.summary, "FILE", "results as JSON [OUTPUT/summary.json]");
  flags.path("tensorboard", options.tensorboard, "DIR", "event files [OUTPUT/tensorboard]");
  flags.choice("eval-first", options.evaluate_first, kYesNo, "yes|no",
               "evaluate before the first step too [yes]");
  flags.choice("save", options.save, kYesNo, "yes|no", "write the model at the end [yes]");
  flags.path("log-losses", options.log_losses, "FILE", "loss of every step, as JSON lines");
  flags.path("dump-batches", options.dump_batches, "FILE",
             "the batches of rank 0 in the first 20 steps, as safetensors STEP.PASS.NAME");
}

}  // namespace

void add_training_flags(Flags& flags, TrainOptions& options) {
  flags.section("training");
  flags.integer("steps", options.steps, 0, "N", "batches, and optimizer steps [400]");
  flags.integer("batch", options.batch, 1, "N", "samples per rank and backward pass [4; without --model 16]");
  flags.number("learning-rate", options.learning_rate, "X",
               "peak, then falls to 0 [1e-4; without --model 1e-3]");
  flags.integer("warmup", options.warmup, 0, "N", "steps until the peak [30]");
  flags.number("weight-decay", options.weight_decay, "X", "not on biases and layer norms [0.01]", 1);
  flags.number("clip", options.clip, "X", "global gradient norm, 0 for none [1]");
  flags.choice("optimizer", options.optimizer, kOptimizers, "NAME",
               "adamw (the default), sgd, radam, lamb or lars");
  flags.number("dropout", options.dropout, "P", "instead of what config.json says", 1);
  flags.integer("backward-passes-per-step", options.backward_passes_per_step, 1, "N",
                "batches accumulated before one reduction [1]");
  flags.integer("seed", options.seed, 0, "N", "of parameters, order and dropout [1]");
  add_number_types(flags, options.dtype, options.autocast);
  add_device_flag(flags, options.device);
  flags.integer("workers", options.workers, 0, "N",
                "threads that make batches ahead, 0: the training thread does [1]");
  add_synchronisation_flags(flags, options);
  add_output_flags(flags, options);
}

void add_number_types(Flags& flags, ParameterType& dtype, Autocast& autocast) {
  flags.choice("dtype", dtype, kTypes, "NAME", "of parameters: float32 (the default), bfloat16, float64");
  flags.choice("autocast", autocast, kAutocasts, "TYPE",
               "bf16: matrix products in bfloat16, parameters in float32; none (the default)");
}

void check_number_types(ParameterType dtype, Autocast autocast) {
  if (autocast != Autocast::none && dtype != ParameterType::float32) {
    throw UsageError(fmt::format("--autocast {} is for parameters of float32, and --dtype is {}",
                                 name_of(autocast, kAutocasts), name_of(dtype, kTypes)));
  }
}

void complete_training_options(const Flags& flags, TrainOptions& options) {
  if (!flags.given("output")) options.output = std::filesystem::path("runs") / options.task;
  if (!flags.given("summary")) options.summary = options.output / "summary.json";
  if (!flags.given("tensorboard")) options.tensorboard = options.output / "tensorboard";
  options.stop_file = options.output / "stop";
  check_number_types(options.dtype, options.autocast);
  check_together(options);
}

std::string sync_words(const TrainOptions& options) {
  switch (options.sync) {
    case TrainOptions::Sync::by_schedule: return options.schedule.to_string();
    case TrainOptions::Sync::never: return "never";
    case TrainOptions::Sync::barrier: return "barrier";
  }
  return "unknown";
}

std::string optimizer_word(const TrainOptions& options) { return name_of(options.optimizer, kOptimizers); }
std::string dtype_word(const TrainOptions& options) { return name_of(options.dtype, kTypes); }
std::string autocast_word(const TrainOptions& options) { return name_of(options.autocast, kAutocasts); }

std::vector<std::string> shared_settings(const TrainOptions& options) {
  return {fmt::format("--task {}", options.task),
          fmt::format("--steps {}", options.steps),
          fmt::format("--batch {}", options.batch),
          fmt::format("--learning-rate {}", options.learning_rate),
          fmt::format("--warmup {}", options.warmup),
          fmt::format("--weight-decay {}", options.weight_decay),
          fmt::format("--clip {}", options.clip),
          fmt::format("--optimizer {}", optimizer_word(options)),
          fmt::format("--backward-passes-per-step {}", options.backward_passes_per_step),
          fmt::format("--seed {}", options.seed),
          fmt::format("--dtype {}", dtype_word(options)),
          fmt::format("--autocast {}", autocast_word(options)),
          fmt::format("--device {}", device_word(options.device)),
          fmt::format("--sync {}", sync_words(options)),
          fmt::format("--compression {}", name_of(options.compression, kCompressions)),
          fmt::format("--compression-share {}", options.compression_share),
          fmt::format("--low-rank {}", options.low_rank),
          fmt::format("--shard {}", name_of(options.shard, kYesNo)),
          fmt::format("--elastic {}", name_of(options.elastic, kYesNo)),
          fmt::format("--evaluate-every {}", options.evaluate_every),
          fmt::format("--checkpoint-every {}", options.checkpoint_every),
          fmt::format("--resume {}", options.resume ? "given" : "not given"),
          fmt::format("--eval-first {}", name_of(options.evaluate_first, kYesNo)),
          fmt::format("--log-losses {}", options.log_losses.empty() ? "not given" : "given")};
}

double learning_rate_at(std::int64_t step, const TrainOptions& options) {
  if (step < options.warmup) {
    return options.learning_rate * static_cast<double>(step + 1) / static_cast<double>(options.warmup);
  }
  const auto left = static_cast<double>(std::max<std::int64_t>(0, options.steps - step));
  return options.learning_rate * left /
         static_cast<double>(std::max<std::int64_t>(1, options.steps - options.warmup));
}

}  // namespace rueda::examples
