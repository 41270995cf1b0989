// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/trainer.h"

#include <ATen/Context.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <stdexcept>
#include <string>

#include <rueda/rueda_torch.h>
#include "examples/lib/data/batches.h"
#include "examples/lib/model/bert_model.h"
#include "examples/lib/training/step_optimizer.h"

namespace rueda::examples {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Processor time of all threads of this process.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// That this rank has given to allreduce so far.
std::uint64_t allreduced_bytes() {
  for (const auto& each : metrics().operations) {
    if (each.operation == Operation::allreduce) return each.bytes;
  }
  return 0;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

void average_over_ranks(std::vector<double>& values, const std::string& name) {
  at::Tensor tensor = at::tensor(values, at::TensorOptions().dtype(at::kDouble));
  allreduce_(tensor, name);
  std::copy_n(tensor.const_data_ptr<double>(), values.size(), values.begin());
}

// A norm that is not finite poisons the parameters, and with them every later loss: better to stop here.
double checked_norm(double norm) {
  if (std::isfinite(norm)) return norm;
  throw std::runtime_error(
      fmt::format("the gradient norm is {}: training diverged; try a lower --learning-rate", norm));
}

// One run's loop with its measurements. Lives on the stack of train().
class Loop {
 public:
  Loop(BertForQuestionAnswering& model, std::span<const Feature> windows, const TrainOptions& options)
      : model_(model),
        windows_(windows),
        options_(options),
        passes_(static_cast<std::size_t>(options.backward_passes_per_step)),
        order_(windows.size(), options.seed, static_cast<std::size_t>(options.batch),
               static_cast<std::size_t>(size()), passes_),
        optimizer_(make_optimizer(model, options)) {}

  StepReport step(std::int64_t index) {
    const Clock::time_point begin = Clock::now();
    const double cpu_before = cpu_seconds();
    const double waited_before = optimizer_->wait_seconds();
    StepReport report{
        .step = index, .loss = 0, .learning_rate = learning_rate_at(index, options_), .gradient_norm = 0};
    optimizer_->set_learning_rate(report.learning_rate);
    optimizer_->zero_grad();
    for (std::size_t pass = 0; pass < passes_; ++pass) {
      report.loss += backward(static_cast<std::size_t>(index), pass) / static_cast<double>(passes_);
    }
    const bool steps = optimizer_->synchronize();
    if (options_.sync == TrainOptions::Sync::meet) barrier();
    if (options_.clip > 0 && steps) report.gradient_norm = checked_norm(optimizer_->clip(options_.clip));
    optimizer_->step();
    const double waited = optimizer_->wait_seconds() - waited_before;
    step_ms_.push_back(seconds_since(begin) * 1e3);
    wait_ms_.push_back(waited * 1e3);
    compute_ms_.push_back(step_ms_.back() - wait_ms_.back());
    cpu_ms_ += (cpu_seconds() - cpu_before) * 1e3;
    losses_.push_back(report.loss);
    report.sync_interval = optimizer_->sync_interval();
    report.drift = optimizer_->drift();
    return report;
  }

  void flush() { optimizer_->flush(); }

  TrainingResult result() {
    std::vector<double> values = losses_;
    double total_ms = 0;
    for (const double ms : step_ms_) total_ms += ms;
    values.insert(values.end(), {total_ms, median(step_ms_), median(compute_ms_), median(wait_ms_), cpu_ms_});
    average_over_ranks(values, "training.losses_and_times");

    TrainingResult result;
    const auto steps = losses_.size();
    result.losses.assign(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(steps));
    const auto samples =
        static_cast<double>(steps * passes_ * static_cast<std::size_t>(options_.batch * size()));
    result.samples_per_second = steps > 0 ? samples / (values[steps] / 1e3) : 0;
    result.step_ms = values[steps + 1];
    result.compute_ms = values[steps + 2];
    result.wait_ms = values[steps + 3];
    result.cpu_ms = steps > 0 ? values[steps + 4] / static_cast<double>(steps) : 0;
    return result;
  }

 private:
  // Adds the gradients of one batch; returns its loss.
  double backward(std::size_t step, std::size_t pass) {
    const auto me = static_cast<std::size_t>(rank());
    const PaddedBatch batch =
        pad(windows_, order_.batch(step, pass, me), static_cast<std::int32_t>(model_.config().pad_token_id));
    // Dropout: other numbers for every rank and pass, the same ones in every run.
    at::manual_seed(mix(mix(options_.seed, me), step * passes_ + pass));
    at::Tensor loss = answer_loss(model_.forward(to_input(batch)), batch);
    const double value = loss.item<double>();
    // The distributed optimizer takes the mean over passes; a plain one adds them up.
    if (!options_.synchronize() && passes_ > 1) loss = loss / static_cast<double>(passes_);
    loss.backward();
    return value;
  }

  BertForQuestionAnswering& model_;
  std::span<const Feature> windows_;
  const TrainOptions& options_;
  std::size_t passes_;
  TrainingOrder order_;
  std::unique_ptr<StepOptimizer> optimizer_;
  std::vector<double> losses_;
  std::vector<double> step_ms_;
  std::vector<double> compute_ms_;
  std::vector<double> wait_ms_;
  double cpu_ms_ = 0;
};

}  // namespace

TrainingResult train(BertForQuestionAnswering& model, std::span<const Feature> windows,
                     const TrainOptions& options, const StepListener& listener) {
  model.train();
  Loop loop(model, windows, options);
  const std::uint64_t bytes_before = allreduced_bytes();
  for (std::int64_t step = 0; step < options.steps; ++step) listener(loop.step(step));
  loop.flush();
  const std::uint64_t bytes = allreduced_bytes() - bytes_before;
  TrainingResult result = loop.result();
  result.reduced_mb = static_cast<double>(bytes) / 1e6;
  return result;
}

void check_equal_on_all_ranks(std::uint64_t hash) {
  auto value = static_cast<std::int64_t>(hash);
  const at::Tensor mine = at::from_blob(&value, {1}, at::TensorOptions().dtype(at::kLong));
  const at::Tensor all = allgather(mine, "training.parameters_hash").contiguous();
  const auto* hashes = all.const_data_ptr<std::int64_t>();
  std::string different;
  for (std::int64_t other = 1; other < all.size(0); ++other) {
    if (hashes[other] == hashes[0]) continue;
    different += fmt::format("{}{} ({:016x})", different.empty() ? "" : ", ", other,
                             static_cast<std::uint64_t>(hashes[other]));
  }
  if (different.empty()) return;
  throw std::runtime_error(
      fmt::format("after training the parameters of rank 0 ({:016x}) differ from those of rank {}",
                  static_cast<std::uint64_t>(hashes[0]), different));
}

}  // namespace rueda::examples
