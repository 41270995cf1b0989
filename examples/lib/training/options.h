// SPDX-License-Identifier: Apache-2.0
// The flags of train_bert.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/base/types.h"
#include "frameworks/torch/sync_schedule.h"

namespace rueda::examples {

enum class OptimizerKind : std::uint8_t { adamw, sgd, radam, lamb, lars };
enum class ParameterType : std::uint8_t { float32, bfloat16, float64 };

// A flag that does not exist or a value that it cannot take; what() is one line for the user.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// All settings of one run; the defaults are those of fine-tuning a given model.
struct TrainOptions {
  std::string task = "squad";
  std::filesystem::path data;
  std::optional<std::filesystem::path> model;  // a checkpoint folder; without: a small random BERT
  std::int64_t held_out = 8;
  std::int64_t steps = 400;
  std::int64_t batch = 4;  // windows per rank and backward pass
  std::int64_t max_length = 256;
  std::int64_t stride = 64;
  double learning_rate = 1e-4;
  std::int64_t warmup = 30;
  double weight_decay = 0.01;
  double clip = 1.0;  // 0: no clipping
  OptimizerKind optimizer = OptimizerKind::adamw;
  std::optional<double> dropout;
  std::int64_t backward_passes_per_step = 1;
  std::uint64_t seed = 1;
  ParameterType dtype = ParameterType::float32;
  // What ranks do together: synchronise by a schedule; nothing; or only meet in every step, which is what any
  // training that synchronises costs at least.
  enum class Sync { by_schedule, never, meet };
  Sync sync = Sync::by_schedule;
  SyncSchedule schedule;
  bool synchronize() const { return sync == Sync::by_schedule; }
  Compression compression = Compression::none;  // of gradients between hosts
  double compression_share = 0.01;              // of topk
  int low_rank = 0;                             // columns of the factors as which gradients travel; 0: whole
  std::optional<bool> overlap;                  // unset: as DistributedOptions does
  bool shard = false;                           // each rank steps a part of the parameters
  std::filesystem::path output;
  std::filesystem::path summary;
  std::filesystem::path tensorboard;
  std::filesystem::path log_losses;  // empty: not written
  bool evaluate_first = true;
  bool save = true;
};

// Nothing if --help was asked for. Throws UsageError.
std::optional<TrainOptions> parse_options(int argument_count, const char* const* arguments);

std::string help_text();

// What --sync says.
std::string sync_words(const TrainOptions& options);

// The settings in which all ranks must be alike, a line each.
std::vector<std::string> shared_settings(const TrainOptions& options);

// The learning rate of `step` (from 0): rises over the warm-up steps, then falls in a line to zero at the
// end.
double learning_rate_at(std::int64_t step, const TrainOptions& options);

}  // namespace rueda::examples
