// SPDX-License-Identifier: Apache-2.0
// The flags that every trainer has.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "examples/lib/training/options/compute_device.h"
#include "examples/lib/training/options/flags.h"
#include "rueda/torch/local_sgd/sync_schedule.h"
#include "rueda/types.h"

namespace rueda::examples {

enum class OptimizerKind : std::uint8_t { adamw, sgd, radam, lamb, lars };
enum class ParameterType : std::uint8_t { float32, bfloat16, float64 };
enum class Autocast : std::uint8_t { none, bf16 };

// The settings of one run that any trainer has. A trainer's own options derive from it, and set other
// defaults before they read flags.
struct TrainOptions {
  std::string program = "train_bert";  // in messages
  std::string task = "squad";          // in reports, and of the default output folder
  std::int64_t steps = 400;
  std::int64_t batch = 4;  // samples per rank and backward pass
  double learning_rate = 1e-4;
  std::int64_t warmup = 30;
  double weight_decay = 0.01;
  double clip = 1.0;  // 0: no clipping
  OptimizerKind optimizer = OptimizerKind::adamw;
  std::optional<double> dropout;  // unset: as the model's config.json says
  std::int64_t backward_passes_per_step = 1;
  std::uint64_t seed = 1;
  ParameterType dtype = ParameterType::float32;
  Autocast autocast = Autocast::none;
  DeviceChoice device;
  std::int64_t workers = 1;  // threads that make batches; 0: the training thread does
  // The common action of ranks: synchronise by a schedule; nothing; or only pass a barrier in every step,
  // which is the least cost of any training that synchronises.
  enum class Sync { by_schedule, never, barrier };
  Sync sync = Sync::by_schedule;
  SyncSchedule schedule;
  bool synchronize() const { return sync == Sync::by_schedule; }
  Compression compression = Compression::none;  // of gradients between hosts
  double compression_share = 0.01;              // of topk
  int low_rank = 0;                             // columns of the factors as which gradients travel; 0: whole
  std::optional<bool> overlap;                  // unset: as DistributedOptions does
  bool shard = false;                           // each rank steps a part of the parameters
  bool elastic = false;                         // goes on without lost ranks, and with new ones
  std::int64_t evaluate_every = 0;              // steps; 0: at the end only
  std::int64_t checkpoint_every = 0;            // steps; 0: when told to stop only
  std::int64_t keep = 3;                        // checkpoints
  std::optional<std::filesystem::path> resume;  // a folder; empty: the newest of this output
  bool allow_code = false;                      // resume from archives of torch::save
  std::filesystem::path output;
  std::filesystem::path summary;
  std::filesystem::path tensorboard;
  std::filesystem::path log_losses;    // empty: not written
  std::filesystem::path dump_batches;  // empty: not written
  bool evaluate_first = true;
  bool save = true;

  std::filesystem::path stop_file;  // made by the user to end the training

  std::filesystem::path checkpoints() const { return output / "checkpoints"; }
  std::int64_t samples_per_step(std::int64_t ranks) const { return batch * backward_passes_per_step * ranks; }
};

// Adds their rows.
void add_training_flags(Flags& flags, TrainOptions& options);

// Sets the defaults that depend on other options, after Flags::apply(). Throws UsageError for flags that do
// not go together.
void complete_training_options(const Flags& flags, TrainOptions& options);

// --dtype and --autocast, which any program that runs a model may have.
void add_number_types(Flags& flags, ParameterType& dtype, Autocast& autocast);
// Throws UsageError if they do not go together.
void check_number_types(ParameterType dtype, Autocast autocast);

// The values of --sync, --optimizer, --dtype and --autocast.
std::string sync_words(const TrainOptions& options);
std::string optimizer_word(const TrainOptions& options);
std::string dtype_word(const TrainOptions& options);
std::string autocast_word(const TrainOptions& options);

// The settings in which all ranks must be alike, a line each.
std::vector<std::string> shared_settings(const TrainOptions& options);

// The learning rate of `step` (from 0): rises over the warm-up steps, then falls in a line to zero at the
// end.
double learning_rate_at(std::int64_t step, const TrainOptions& options);

}  // namespace rueda::examples
