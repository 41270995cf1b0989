// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/program_options.hpp>
#include <cmath>
#include <limits>
#include <sstream>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "examples/lib/data/sample_file.h"

namespace rueda::examples {
namespace {

namespace po = boost::program_options;

constexpr const char* kUsage =
    "usage: train_bert [flags]\n"
    "Fine-tunes a BERT for question answering, by one process or by those that ruedarun starts:\n"
    "  ruedarun -np 2 train_bert --data train.json --model CHECKPOINT\n"
    "Without --model a small random BERT learns the sample that comes with Rueda.\n\nflags";

// What a flag may say, and what that means.
template <class T, std::size_t kCount>
using Choices = std::array<std::pair<const char*, T>, kCount>;

constexpr Choices<OptimizerKind, 5> kOptimizers{{{"adamw", OptimizerKind::adamw},
                                                 {"sgd", OptimizerKind::sgd},
                                                 {"radam", OptimizerKind::radam},
                                                 {"lamb", OptimizerKind::lamb},
                                                 {"lars", OptimizerKind::lars}}};
constexpr Choices<Compression, 4> kCompressions{{{"none", Compression::none},
                                                 {"fp16", Compression::fp16},
                                                 {"bf16", Compression::bf16},
                                                 {"topk", Compression::topk}}};

template <class T, std::size_t kCount>
const char* name_of(T value, const Choices<T, kCount>& choices) {
  return std::ranges::find(choices, value, &std::pair<const char*, T>::second)->first;
}

// What differs without --model, when a small random BERT learns.
TrainOptions small_defaults() {
  TrainOptions options;
  options.held_out = 4;
  options.batch = 16;
  options.max_length = 128;
  options.stride = 32;
  options.learning_rate = 1e-3;
  return options;
}

po::options_description description() {
  const auto text = [] { return po::value<std::string>(); };
  const auto whole = [] { return po::value<std::int64_t>(); };
  const auto number = [] { return po::value<double>(); };
  po::options_description flags(kUsage, 110);
  // clang-format off
  flags.add_options()
      ("help", "show this")
      ("task", text()->value_name("NAME"), "what to learn: squad (the default)")
      ("data", text()->value_name("FILE"), "SQuAD v1.1 JSON; default: the sample")
      ("model", text()->value_name("DIR"), "checkpoint: config.json, model.safetensors, vocab.txt")
      ("held-out", whole()->value_name("N"), "last articles kept for evaluation [8; without --model 4]")
      ("steps", whole()->value_name("N"), "optimizer steps [400]")
      ("batch", whole()->value_name("N"), "windows per rank and backward pass [4; without --model 16]")
      ("max-length", whole()->value_name("N"), "tokens in a window [256; without --model 128]")
      ("stride", whole()->value_name("N"), "tokens that windows share [64; without --model 32]")
      ("learning-rate", number()->value_name("X"), "peak, then falls to 0 [1e-4; without --model 1e-3]")
      ("warmup", whole()->value_name("N"), "steps until the peak [30]")
      ("weight-decay", number()->value_name("X"), "not on biases and layer norms [0.01]")
      ("clip", number()->value_name("X"), "global gradient norm, 0 for none [1]")
      ("optimizer", text()->value_name("NAME"), "adamw (the default), sgd, radam, lamb or lars")
      ("dropout", number()->value_name("P"), "instead of what config.json says")
      ("backward-passes-per-step", whole()->value_name("N"), "batches accumulated before one reduction [1]")
      ("seed", po::value<std::int64_t>()->value_name("N"), "of parameters, order and dropout [1]")
      ("dtype", text()->value_name("NAME"), "of parameters: float32 (the default), bfloat16, float64")
      ("sync", text()->value_name("WHEN"), "every_step (the default), accumulate:N, local_sgd:N, diloco:N[:LR[:MOMENTUM]], adaptive[:TARGET[:MOST[:STRETCH]]], one_step_late; never: each rank trains by itself; meet: so, but they wait for each other in every step")
      ("compression", text()->value_name("TYPE"), "of gradients between hosts: none (the default), fp16, bf16 or topk")
      ("compression-share", number()->value_name("X"), "of the elements, how many travel with topk [0.01]")
      ("low-rank", whole()->value_name("N"), "gradients travel as factors of N columns (PowerSGD), 0 for whole ones [0]")
      ("overlap", text()->value_name("auto|on|off"), "reduce gradients while backward runs [auto: where cores or a network have time]")
      ("shard", text()->value_name("yes|no"), "each rank steps a part and keeps its state only [no]")
      ("output", text()->value_name("DIR"), "checkpoint and reports [runs/TASK]")
      ("summary", text()->value_name("FILE"), "results as JSON [OUTPUT/summary.json]")
      ("tensorboard", text()->value_name("DIR"), "event files [OUTPUT/tensorboard]")
      ("eval-first", text()->value_name("yes|no"), "evaluate before the first step too [yes]")
      ("save", text()->value_name("yes|no"), "write the checkpoint [yes]")
      ("log-losses", text()->value_name("FILE"), "loss of every step, as JSON lines");
  // clang-format on
  return flags;
}

// Moves what the user gave into TrainOptions, checking each value.
class Reader {
 public:
  explicit Reader(const po::variables_map& given) : given_(given) {}

  void path(const char* flag, std::filesystem::path& target) const {
    if (const std::string* value = text(flag)) target = *value;
  }

  template <class T>
  void integer(const char* flag, T& target, std::int64_t least) const {
    if (given_.count(flag) == 0) return;
    const auto value = given_[flag].as<std::int64_t>();
    if (value < least || value > std::numeric_limits<std::int32_t>::max()) {
      throw UsageError(fmt::format("--{} is {}; it must be at least {} and below 2^31", flag, value, least));
    }
    target = static_cast<T>(value);
  }

  // A number in [0, limit).
  template <class T>
  void number(const char* flag, T& target, double limit) const {
    if (given_.count(flag) == 0) return;
    const auto value = given_[flag].as<double>();
    if (!(value >= 0 && value < limit)) {
      throw UsageError(fmt::format("--{} is {}; it must be at least 0 and below {}", flag, value, limit));
    }
    target = value;
  }

  void share(const char* flag, double& target) const {
    if (given_.count(flag) == 0) return;
    target = given_[flag].as<double>();
    if (!is_share(target))
      throw UsageError(fmt::format("--{} is {}; it must be greater than 0 and at most 1", flag, target));
  }

  void sync(const char* flag, TrainOptions& options) const {
    const std::string* value = text(flag);
    if (value == nullptr) return;
    if (*value == "never" || *value == "meet") {
      options.sync = *value == "never" ? TrainOptions::Sync::never : TrainOptions::Sync::meet;
      return;
    }
    try {
      options.schedule = SyncSchedule::parse(*value);
    } catch (const InvalidArgument& error) {
      throw UsageError(fmt::format("--{}: {}, never, or meet", flag, error.what()));
    }
  }

  template <class T, std::size_t kCount>
  void choice(const char* flag, T& target, const Choices<T, kCount>& choices) const {
    const std::string* value = text(flag);
    if (value == nullptr) return;
    std::string names;
    for (const auto& [name, meaning] : choices) {
      if (*value == name) {
        target = meaning;
        return;
      }
      names += (names.empty() ? "" : " or ") + std::string(name);
    }
    throw UsageError(fmt::format("--{} is '{}'; it must be {}", flag, *value, names));
  }

 private:
  const std::string* text(const char* flag) const {
    if (given_.count(flag) == 0) return nullptr;
    const auto& value = given_[flag].as<std::string>();
    if (value.empty()) throw UsageError(fmt::format("--{} needs a value", flag));
    return &value;
  }

  const po::variables_map& given_;
};

po::variables_map parse(int argument_count, const char* const* arguments) {
  const po::options_description flags = description();
  po::options_description all;
  all.add(flags).add_options()("unexpected", po::value<std::vector<std::string>>());
  po::positional_options_description positions;
  positions.add("unexpected", -1);
  po::variables_map given;
  try {
    namespace style = po::command_line_style;
    po::store(po::command_line_parser(argument_count, arguments)
                  .options(all)
                  .positional(positions)
                  .style(style::unix_style & ~style::allow_guessing & ~style::allow_short)
                  .run(),
              given);
  } catch (const po::error& error) {
    throw UsageError(fmt::format("{}; see train_bert --help", error.what()));
  }
  if (given.count("unexpected") != 0) {
    throw UsageError(fmt::format("unexpected argument '{}'; see train_bert --help",
                                 given["unexpected"].as<std::vector<std::string>>().front()));
  }
  return given;
}

}  // namespace

std::string help_text() {
  std::ostringstream text;
  text << description();
  return text.str();
}

std::optional<TrainOptions> parse_options(int argument_count, const char* const* arguments) {
  const po::variables_map given = parse(argument_count, arguments);
  if (given.count("help") != 0) return std::nullopt;

  TrainOptions options = given.count("model") != 0 ? TrainOptions{} : small_defaults();
  const Reader reader(given);
  const std::array<std::pair<const char*, bool>, 2> yes_no = {{{"yes", true}, {"no", false}}};
  reader.choice<std::string, 1>("task", options.task, {{{"squad", "squad"}}});
  reader.path("data", options.data);
  if (given.count("model") != 0) reader.path("model", options.model.emplace());
  reader.integer("held-out", options.held_out, 1);
  reader.integer("steps", options.steps, 0);
  reader.integer("batch", options.batch, 1);
  reader.integer("max-length", options.max_length, 8);
  reader.integer("stride", options.stride, 0);
  reader.number("learning-rate", options.learning_rate, std::numeric_limits<double>::infinity());
  reader.integer("warmup", options.warmup, 0);
  reader.number("weight-decay", options.weight_decay, 1);
  reader.number("clip", options.clip, std::numeric_limits<double>::infinity());
  reader.choice("optimizer", options.optimizer, kOptimizers);
  reader.number("dropout", options.dropout, 1);
  reader.integer("backward-passes-per-step", options.backward_passes_per_step, 1);
  reader.integer("seed", options.seed, 0);
  reader.choice<ParameterType, 3>("dtype", options.dtype,
                                  {{{"float32", ParameterType::float32},
                                    {"bfloat16", ParameterType::bfloat16},
                                    {"float64", ParameterType::float64}}});
  reader.sync("sync", options);
  reader.choice("compression", options.compression, kCompressions);
  reader.share("compression-share", options.compression_share);
  reader.integer("low-rank", options.low_rank, 0);
  reader.choice<std::optional<bool>, 3>("overlap", options.overlap,
                                        {{{"auto", std::nullopt}, {"on", true}, {"off", false}}});
  reader.choice("shard", options.shard, yes_no);
  if (options.shard && !options.synchronize()) {
    throw UsageError(
        fmt::format("--shard yes needs ranks that synchronise, and --sync is {}", sync_words(options)));
  }
  if (options.shard &&
      (options.optimizer == OptimizerKind::lamb || options.optimizer == OptimizerKind::lars)) {
    throw UsageError(
        fmt::format("--shard yes needs an optimizer that steps each element by itself, and {} needs norms of "
                    "whole parameters; choose adamw, sgd or radam",
                    name_of(options.optimizer, kOptimizers)));
  }
  options.output = std::filesystem::path("runs") / options.task;
  reader.path("output", options.output);
  options.summary = options.output / "summary.json";
  reader.path("summary", options.summary);
  options.tensorboard = options.output / "tensorboard";
  reader.path("tensorboard", options.tensorboard);
  reader.choice("eval-first", options.evaluate_first, yes_no);
  reader.choice("save", options.save, yes_no);
  reader.path("log-losses", options.log_losses);
  if (options.data.empty()) options.data = sample_file("squad_sample.json");
  return options;
}

std::string sync_words(const TrainOptions& options) {
  switch (options.sync) {
    case TrainOptions::Sync::by_schedule: return options.schedule.to_string();
    case TrainOptions::Sync::never: return "never";
    case TrainOptions::Sync::meet: return "meet";
  }
  return "unknown";
}

std::vector<std::string> shared_settings(const TrainOptions& options) {
  return {fmt::format("--steps {}", options.steps),
          fmt::format("--batch {}", options.batch),
          fmt::format("--held-out {}", options.held_out),
          fmt::format("--max-length {}", options.max_length),
          fmt::format("--stride {}", options.stride),
          fmt::format("--learning-rate {}", options.learning_rate),
          fmt::format("--warmup {}", options.warmup),
          fmt::format("--weight-decay {}", options.weight_decay),
          fmt::format("--clip {}", options.clip),
          fmt::format("--optimizer {}", name_of(options.optimizer, kOptimizers)),
          fmt::format("--backward-passes-per-step {}", options.backward_passes_per_step),
          fmt::format("--seed {}", options.seed),
          fmt::format("--sync {}", sync_words(options)),
          fmt::format("--compression {}", name_of(options.compression, kCompressions)),
          fmt::format("--compression-share {}", options.compression_share),
          fmt::format("--low-rank {}", options.low_rank),
          fmt::format("--shard {}", options.shard ? "yes" : "no"),
          fmt::format("--eval-first {}", options.evaluate_first ? "yes" : "no")};
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
