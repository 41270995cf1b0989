// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/trainer.h"

#include <ATen/Context.h>
#include <ATen/ops/all.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include <rueda/torch.h>
#include "examples/lib/training/autocast.h"
#include "examples/lib/training/options/compute_device.h"

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

constexpr const char* kNormNotFinite = "the gradient norm is not finite";

std::string not_finite(std::int64_t step) { return fmt::format("the loss of step {} is not finite", step); }

// Names a parameter that has values which are not finite; empty where there is none.
std::string parameter_not_finite(const torch::nn::Module& model) {
  std::vector<at::Tensor> flags;
  for (const at::Tensor& parameter : model.parameters()) flags.push_back(at::isfinite(parameter).all());
  if (flags.empty()) return {};
  const at::Tensor all = at::stack(flags).cpu();  // read once: of a device each reading is a wait
  const auto names = model.named_parameters();
  for (std::size_t i = 0; i < flags.size(); ++i) {
    if (!all.const_data_ptr<bool>()[i])
      return fmt::format("parameter {} has values that are not finite", names[i].key());
  }
  return {};
}

// In the order in which a step adds them up: the loss, its parts, and the norm where it is one of a device.
void take_losses(StepReport& report, const std::vector<double>& numbers) {
  auto next = numbers.begin();
  report.loss = *next++;
  for (auto& [name, value] : report.parts) value = *next++;
  if (next != numbers.end()) report.gradient_norm = *next;
}

void average(std::vector<double>& values, const std::string& name) {
  if (values.empty()) return;
  at::Tensor tensor = at::tensor(values, at::TensorOptions().dtype(at::kDouble));
  allreduce_(tensor, name);
  std::copy_n(tensor.const_data_ptr<double>(), values.size(), values.begin());
}

// Whether a multiple of `every` lies in (before, now].
bool is_due(std::int64_t every, std::int64_t before, std::int64_t now) {
  return every > 0 && now / every > before / every;
}

}  // namespace

StopVote::~StopVote() {
  try {
    result();
  } catch (const std::exception&) {  // of a lost rank, which whoever ends the training has heard of
  }
}

void StopVote::ask(Stop mine) {
  words_.front() = static_cast<std::int32_t>(mine);
  const TensorView both = view(std::span<std::int32_t>(words_));
  handle_ = allreduce_async("training.stop", both, both, {ReduceOp::max});
}

Stop StopVote::result() {
  if (!handle_) return Stop::none;
  std::exchange(handle_, std::nullopt)->wait();
  return static_cast<Stop>(words_.front());
}

Trainer::Trainer(Task& task, const TrainOptions& options, KeptTraining& kept, StopRequest* stop)
    : task_(task),
      options_(options),
      passes_(options.backward_passes_per_step),
      device_(device_of(task.model())),
      kept_(kept),
      position_(kept.position),
      optimizer_(&kept.optimizer()),
      stop_(stop),
      dump_(options.dump_batches) {}

TrainingResult Trainer::run(TrainingListener& listener) {
  task_.model().train();
  const std::uint64_t bytes_before = allreduced_bytes();
  Stop stop = Stop::none;
  if (kept_.last_meeting < position_.step) stop = act_on_sync(listener);
  {
    BatchFeed feed(task_, options_,
                   {.samples = position_.samples,
                    .first_step = position_.step,
                    .rank = rank(),
                    .ranks = size(),
                    .for_device = !device_.is_cpu()});
    const PhaseScope training(Phase::forward);
    while (position_.step < options_.steps && stop == Stop::none) {
      step(feed, listener);
      commit(listener);
      if (synced_) stop = act_on_sync(listener);
    }
    settle(listener);
  }
  if (rank() == 0) dump_.write();
  if (stop != Stop::interrupt) optimizer_->flush(options_.clip);
  check_parameters();
  const auto reduced = static_cast<double>(allreduced_bytes() - bytes_before);
  TrainingResult result = this->result(stop);
  result.reduced_mb = reduced / 1e6;
  return result;
}

void Trainer::step(BatchFeed& feed, TrainingListener& listener) {
  const Clock::time_point begin = Clock::now();
  const double cpu_before = cpu_seconds();
  const double waited_before = optimizer_->wait_seconds();
  const double fed_before = feed.wait_seconds();
  StepReport report{.step = position_.step, .learning_rate = learning_rate_at(position_.step, options_)};
  optimizer_->set_learning_rate(report.learning_rate);
  optimizer_->zero_grad();
  at::Tensor losses = pass(feed.next(), 0, report);
  for (std::int64_t number = 1; number < passes_; ++number) losses += pass(feed.next(), number, report);
  synced_ = optimizer_->is_sync_step();
  if (device_.is_cpu()) {
    take_losses(report, DelayedMetrics(losses).read());
    judge(report);
  } else if (open_) {
    close(listener);  // the device has all of this step to do meanwhile
  }
  const GradientNorm norm = update(report);
  report.time = {.whole = seconds_since(begin),
                 .data = feed.wait_seconds() - fed_before,
                 .wait = optimizer_->wait_seconds() - waited_before,
                 .cpu = cpu_seconds() - cpu_before};
  ++position_.step;
  position_.samples += static_cast<std::uint64_t>(options_.samples_per_step(size()));
  if (device_.is_cpu()) return note(report, listener);
  if (norm.on_device().defined()) losses = at::cat({losses, norm.on_device().to(at::kDouble).view(1)});
  open_.emplace(OpenStep{report, DelayedMetrics(losses)});
}

// With --elastic. The history of the step belongs to it, so a device is waited for.
void Trainer::commit(TrainingListener& listener) {
  if (options_.elastic && open_) close(listener);
  kept_.commit();
}

// From gradients to parameters. Ends all ranks' training if one has seen a value that is not finite.
GradientNorm Trainer::update(StepReport& report) {
  const Stop mine = wish();
  if (synced_ && stop_ != nullptr) vote_.ask(mine);
  const bool steps = optimizer_->synchronize();
  if (options_.sync == TrainOptions::Sync::barrier) barrier();
  GradientNorm norm;
  if (options_.clip > 0 && steps) norm = optimizer_->clip(options_.clip);
  if (!norm.on_device().defined()) report.gradient_norm = norm;
  if (!std::isfinite(report.gradient_norm)) {
    trouble_ = kNormNotFinite;
    if (synced_) end_diverged();  // the norm is the same on all ranks; else they hear of it when they meet
  }
  agreed_ = stop_ != nullptr ? vote_.result() : mine;  // before the step, so that a commit can be light
  if (agreed_ == Stop::diverged) end_diverged();
  optimizer_->step();
  if (!options_.synchronize()) end_step();  // others call it
  report.sync_interval = optimizer_->sync_interval();
  report.drift = optimizer_->drift();
  return norm;
}

// Reads the device's results of the last step.
void Trainer::close(TrainingListener& listener) {
  OpenStep step = *std::exchange(open_, std::nullopt);
  take_losses(step.report, step.numbers.read());
  judge(step.report);
  note(step.report, listener);
}

// Before anything is made of the model. Collective, unless ranks do not synchronise.
void Trainer::settle(TrainingListener& listener) {
  if (!open_) return;
  close(listener);
  end_if_any_diverged();
}

// Before anything is made of the model. Collective, unless ranks do not synchronise.
void Trainer::check_parameters() {
  if (trouble_.empty()) trouble_ = parameter_not_finite(task_.model());
  end_if_any_diverged();
}

void Trainer::end_if_any_diverged() {
  Stop worst = trouble_.empty() ? Stop::none : Stop::diverged;
  if (stop_ != nullptr) {
    vote_.ask(worst);
    worst = vote_.result();
  }
  if (worst == Stop::diverged) end_diverged();
}

// Keeps the first trouble. A norm is the same on all ranks, and of a loss that is not finite it is not
// either: it comes before the loss of its step.
void Trainer::judge(const StepReport& report) {
  if (!trouble_.empty()) return;
  judged_ = report.step + 1;
  if (!std::isfinite(report.loss)) trouble_ = not_finite(judged_);
  if (!std::isfinite(report.gradient_norm)) trouble_ = kNormNotFinite;
}

void Trainer::end_diverged() const { throw Diverged(trouble_.empty() ? not_finite(judged_) : trouble_); }

Stop Trainer::wish() const {
  if (!trouble_.empty()) return Stop::diverged;
  return stop_ != nullptr ? stop_->seen() : Stop::none;
}

// Adds the gradients of one batch. Returns its share of the step's losses: the whole and the parts, float64.
at::Tensor Trainer::pass(const TaskBatch& batch, std::int64_t pass, StepReport& report) {
  const auto me = static_cast<std::uint64_t>(rank());
  if (me == 0) dump_.add(report.step, pass, batch);
  // Dropout: other numbers for every rank and pass, the same ones in every run.
  at::manual_seed(mix(mix(options_.seed, me), static_cast<std::uint64_t>(report.step * passes_ + pass)));
  TaskLoss loss;
  {
    const AutocastScope autocast(options_.autocast, device_.type());
    loss = task_.losses(batch.to(device_));
  }
  std::vector<at::Tensor> losses{loss.total.detach().to(at::kDouble)};
  for (const LossPart& part : loss.parts) losses.push_back(part.value.detach().to(at::kDouble));
  if (report.parts.empty()) {
    for (const LossPart& part : loss.parts) report.parts.emplace_back(part.name, 0);
  }
  const auto passes = static_cast<double>(passes_);
  // The distributed optimizer takes the mean over passes; a plain one adds them up.
  if (!options_.synchronize() && passes_ > 1) loss.total = loss.total / passes;
  const PhaseScope backward(Phase::backward);
  loss.total.backward();
  return at::stack(losses).div_(passes);
}

// A step is over, and its numbers are known.
void Trainer::note(const StepReport& report, TrainingListener& listener) {
  position_.history.add({.loss = report.loss,
                         .learning_rate = report.learning_rate,
                         .seconds = report.time.whole,
                         .samples = static_cast<double>(options_.samples_per_step(size())),
                         .parts = report.parts});
  times_.push_back(report.time);
  listener.step_done(report);
}

// After a step in which ranks have met.
Stop Trainer::act_on_sync(TrainingListener& listener) {
  const std::int64_t before = std::exchange(kept_.last_meeting, position_.step);
  const bool over = position_.step >= options_.steps || agreed_ == Stop::finish;
  // The end has an evaluation of its own, and the model that it saves is a checkpoint's better part.
  const bool evaluates =
      !over && agreed_ == Stop::none && is_due(options_.evaluate_every, before, position_.step);
  const bool due = is_due(options_.checkpoint_every, before, position_.step);
  const bool saves = due || (agreed_ == Stop::interrupt && !over);
  if (evaluates || saves) settle(listener);
  if (evaluates) listener.evaluation_due(position_.step);
  if (saves) {
    optimizer_->flush(options_.clip);
    check_parameters();
    average_over_ranks(position_.history);
    listener.checkpoint_due(position_, *optimizer_, agreed_ == Stop::interrupt);
  }
  return over && agreed_ == Stop::interrupt ? Stop::none : agreed_;
}

TrainingResult Trainer::result(Stop stop) const {
  TrainingResult result{.position = position_, .stop = stop};
  average_over_ranks(result.position.history);
  const StepSplit mine = split_of(times_);
  std::vector<double> values{mine.total, mine.step, mine.data, mine.compute, mine.wait, mine.cpu};
  average(values, "training.times");
  result.split = {values[0], values[1], values[2], values[3], values[4], values[5]};
  const double samples =
      static_cast<double>(times_.size()) * static_cast<double>(options_.samples_per_step(size()));
  result.samples_per_second = values[0] > 0 ? samples / (values[0] / 1e3) : 0;
  return result;
}

void average_over_ranks(StepHistory& history) {
  const auto fresh = [&](const std::vector<double>& values) {
    return std::vector<double>(values.begin() + static_cast<std::ptrdiff_t>(history.averaged), values.end());
  };
  std::vector<double> all = fresh(history.losses);
  for (const auto& [name, part] : history.parts) {
    const std::vector<double> more = fresh(part);
    all.insert(all.end(), more.begin(), more.end());
  }
  average(all, "training.losses");
  const auto count = static_cast<std::ptrdiff_t>(history.losses.size() - history.averaged);
  auto next = all.begin();
  const auto take = [&](std::vector<double>& values) {
    std::copy_n(next, count, values.end() - count);
    next += count;
  };
  take(history.losses);
  for (auto& [name, part] : history.parts) take(part);
  history.averaged = history.losses.size();
}

Diverged::Diverged(const std::string& what)
    : std::runtime_error(what + ": training diverged; try a lower --learning-rate, or a longer --warmup") {}

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
