// SPDX-License-Identifier: Apache-2.0
// What a run leaves behind besides the checkpoint: the JSON summary, the losses, and what rank 0 shows on the
// way.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace rueda::examples {

// Numbers that do not exist (no steps, no first evaluation) become null.
struct RunSummary {
  std::string task;
  std::int64_t ranks = 1;
  std::int64_t steps = 0;
  std::string sync;                  // as --sync says it
  std::optional<double> loss_first;  // means over 5 steps and all ranks
  std::optional<double> loss_last;
  std::optional<double> f1_first;  // percent, on held-out questions
  double f1 = 0;
  double exact_match = 0;
  double loss_held_out = 0;  // mean over windows
  std::optional<double> samples_per_s;
  std::optional<double> step_ms;
  std::optional<double> compute_ms;
  std::optional<double> wait_ms;
  std::optional<double> cpu_ms;
  std::optional<double> reduced_mb;  // bytes that this rank gave to allreduce, in 10^6
  std::string parameters_hash;
};

// The mean of the first and of the last five losses, or of as many as there are. Nothing without losses.
std::optional<double> first_mean(const std::vector<double>& losses);
std::optional<double> last_mean(const std::vector<double>& losses);

// Creates what is missing of a folder. Throws std::runtime_error naming it, and why it cannot be.
void make_folder(const std::filesystem::path& folder);
// Finds out before hours of training whether a file can be written: makes its folder, and opens it. Throws
// std::runtime_error naming the path, and why not.
void check_writable(const std::filesystem::path& path);

// Both create the folder. Throw std::runtime_error naming the path.
void write_summary(const std::filesystem::path& path, const RunSummary& summary);
void write_losses(const std::filesystem::path& path, const std::vector<double>& losses);

}  // namespace rueda::examples
