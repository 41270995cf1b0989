// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/run_training.h"

#include <fmt/format.h>
#include <torch/nn/module.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <rueda/torch.h>
#include "examples/lib/model/checkpoint.h"
#include "examples/lib/reporting/run_report.h"
#include "examples/lib/training/job_start.h"
#include "examples/lib/training/options/compute_device.h"
#include "examples/lib/training/reporter.h"
#include "examples/lib/training/trainer.h"
#include "examples/lib/training/training_state.h"
#include "frameworks/torch/collectives/agreement.h"

namespace rueda::examples {
namespace {

// Purpose: one run, from agreement to results. Lives on the stack of run_training().
class Run final : public TrainingListener {
 public:
  Run(Task& task, const TrainOptions& options, KeptTraining& kept, StopRequest* stop)
      : task_(task),
        options_(options),
        kept_(kept),
        stop_(stop),
        state_(task, options),
        resumed_(resume()),
        reporter_(options, kept.position.step) {}

  void start() {
    if (kept_.begun) {
      reporter_.say(fmt::format("going on after step {} with {} rank{}", kept_.position.step, size(),
                                size() == 1 ? "" : "s"));
      return;
    }
    if (resumed_) {
      reporter_.say(
          fmt::format("going on after step {} from {}", resumed_->position.step, resumed_->folder.string()));
      if (resumed_->position.step >= options_.steps) {
        reporter_.say(fmt::format("the checkpoint is of step {} and --steps is {}: nothing is trained",
                                  resumed_->position.step, options_.steps));
      }
    }
    if (options_.synchronize()) broadcast_parameters(task_.model().named_parameters(), 0);
    if (options_.evaluate_first && !resumed_) evaluation_due(0);
    if (resumed_) state_.load_optimizer(*resumed_, kept_.optimizer());
    kept_.begun = true;
  }

  void train() {
    describe_training(options_.steps, options_.samples_per_step(1), kept_.position.step);
    const auto begin = std::chrono::steady_clock::now();
    Trainer trainer(task_, options_, kept_, stop_);
    for (const std::string& line : state_.words()) reporter_.say(line);
    result_ = trainer.run(*this);
    seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  void finish() {
    const std::int64_t steps = result_.position.step;
    if (result_.stop != Stop::interrupt) evaluation_due(steps);
    if (!kept_.evaluations.empty()) check_held_out(kept_.evaluations.back());
    const std::uint64_t hash = parameters_hash(task_.model());
    if (options_.synchronize()) check_equal_on_all_ranks(hash);
    if (rank() != 0) return;
    if (options_.save && result_.stop != Stop::interrupt) {
      const PhaseScope saving(Phase::checkpoint);
      make_folder(options_.output);
      task_.save(options_.output);
    }
    if (result_.stop != Stop::interrupt) task_.write_results();
    const StepHistory& history = result_.position.history;
    if (!options_.log_losses.empty()) write_losses(options_.log_losses, history.losses);
    const RunSummary summary = this->summary(hash);
    write_summary(options_.summary, summary);
    if (summary.step_ms) {
      reporter_.say(fmt::format(
          "loss {:.4f} -> {:.4f}, {:.1f} {}/s, step {:.1f} ms: data {:.1f}, computing {:.1f}, waiting {:.1f}",
          *summary.loss_first, *summary.loss_last, *summary.samples_per_s, task_.sample_name(),
          *summary.step_ms, *summary.data_ms, *summary.compute_ms, *summary.wait_ms));
    }
    reporter_.say(fmt::format("results in {}", options_.summary.string()));
    if (result_.stop == Stop::interrupt) {
      reporter_.say(fmt::format("stopped by SIGTERM after {} of {} steps, saved in {}: go on with --resume",
                                result_.position.step, options_.steps, checkpoint_.string()));
    }
  }

  bool interrupted() const { return result_.stop == Stop::interrupt; }

  void step_done(const StepReport& report) override { reporter_.step(report); }

  void evaluation_due(std::int64_t step) override {
    if (task_.metric_names().empty()) return;  // there is nothing to measure on
    const PhaseScope evaluating(Phase::evaluation);
    const std::vector<Metric> found = task_.evaluate();
    reporter_.evaluation(found, step);
    if (!kept_.evaluations.empty() && kept_.evaluations.back().step == step) kept_.evaluations.pop_back();
    EvaluationPoint& point = kept_.evaluations.emplace_back();
    point.step = step;
    for (const Metric& metric : found) point.metrics.emplace_back(metric.name, metric.value);
    reporter_.go_on();
  }

  void checkpoint_due(const TrainingPosition& position, StepOptimizer& optimizer, bool must) override {
    const PhaseScope saving(Phase::checkpoint);
    try {
      checkpoint_ = state_.save(position, optimizer, kept_.evaluations);
    } catch (const std::exception& error) {
      if (must) throw;
      reporter_.say(fmt::format("warning: {}; training goes on", error.what()));
    }
    reporter_.go_on();
  }

 private:
  // Once; afterwards the training is in the memory of this process.
  std::optional<FoundCheckpoint> resume() {
    if (kept_.begun) {
      state_.take_over();
      kept_.last_meeting = kept_.position.step - 1;  // a commit comes before evaluation and checkpoint
      return std::nullopt;
    }
    std::optional<FoundCheckpoint> found = state_.resume();
    kept_.position = found ? found->position : TrainingPosition();
    kept_.last_meeting = kept_.position.step;
    kept_.evaluations = found ? found->evaluations : std::vector<EvaluationPoint>();
    return found;
  }

  // Checks the loss after the last update: no training loss follows that update. The same on all ranks.
  static void check_held_out(const EvaluationPoint& point) {
    for (const auto& [name, value] : point.metrics) {
      if (name == "loss" && !std::isfinite(value))
        throw Diverged("the loss of what was held out is not finite");
    }
  }

  RunSummary summary(std::uint64_t hash) const {
    const TrainingPosition& position = result_.position;
    const StepSplit& split = result_.split;
    RunSummary summary{.task = options_.task,
                       .ranks = size(),
                       .hosts = cross_size(),
                       .steps = position.step,
                       .samples_per_step = options_.samples_per_step(size()),
                       .backward_passes_per_step = options_.backward_passes_per_step,
                       .sync = sync_words(options_),
                       .optimizer = optimizer_word(options_),
                       .device = kind_of(device_of(task_.model())),
                       .loss_first = first_mean(position.history.losses),
                       .loss_last = last_mean(position.history.losses),
                       .metrics = task_.metric_names(),
                       .seconds = seconds_,
                       .parameters_hash = fmt::format("{:016x}", hash),
                       .evaluations = kept_.evaluations};
    if (resumed_) summary.resumed_from = resumed_->position.step;
    if (const auto membership = metrics().membership; membership.generations > 0)
      summary.membership = membership;
    if (result_.stop == Stop::interrupt) summary.stopped = "SIGTERM";
    if (result_.stop == Stop::finish) summary.stopped = "stop file";
    summary.curve = curve(position.history);
    if (split.total > 0) {
      summary.samples_per_s = result_.samples_per_second;
      summary.step_ms = split.step;
      summary.data_ms = split.data;
      summary.compute_ms = split.compute;
      summary.wait_ms = split.wait;
      summary.cpu_ms = split.cpu;
      summary.reduced_mb = result_.reduced_mb;
    }
    return summary;
  }

  Task& task_;
  const TrainOptions& options_;
  KeptTraining& kept_;
  StopRequest* stop_;
  TrainingState state_;
  std::optional<FoundCheckpoint> resumed_;
  Reporter reporter_;
  TrainingResult result_;
  double seconds_ = 0;
  std::filesystem::path checkpoint_;  // the last
};

void check_settings(const Task& task, const TrainOptions& options) {
  std::vector<std::string> settings = shared_settings(options);
  for (const std::string& line : task.settings()) settings.push_back(line);
  check_agreement("training.settings", "settings of " + options.program, settings, default_runtime());
}

void introduce(Task& task) {
  for (const std::string& line : task.words()) fmt::print("{}\n", line);
  fmt::print("{} rank{} on {} host{}, computing on {}\n", size(), size() == 1 ? "" : "s", cross_size(),
             cross_size() == 1 ? "" : "s", kind_of(device_of(task.model())));
}

}  // namespace

bool run_training(Task& task, const TrainOptions& options) {
  make_folder(options.output);
  check_writable(options.summary);
  for (const auto& file : {options.log_losses, options.dump_batches})
    if (!file.empty()) check_writable(file);
  std::optional<StopRequest> stop;  // ranks that do not synchronise cannot agree on an end: there is none
  if (options.synchronize()) stop.emplace(options.stop_file);
  begin_job();
  if (!options.elastic) check_settings(task, options);
  task.move_to(agree_on_device(options.device));
  KeptTraining kept(task, options);
  bool whole = false;
  try {
    kept.run([&] {
      if (options.elastic) check_settings(task, options);
      if (rank() == 0) introduce(task);
      Run run(task, options, kept, stop ? &*stop : nullptr);
      run.start();
      run.train();
      run.finish();
      whole = !run.interrupted();
    });
  } catch (const Diverged& error) {
    if (options.synchronize()) end_job(error.what());
    throw;
  }
  shutdown();
  return whole;
}

}  // namespace rueda::examples
