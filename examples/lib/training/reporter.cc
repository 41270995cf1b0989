// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/reporter.h"

#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include <rueda/torch.h>

namespace rueda::examples {

Reporter::Reporter(const TrainOptions& options, std::int64_t steps_done)
    : shows_(rank() == 0), steps_done_(steps_done), tensorboard_(options.tensorboard) {
  if (!shows_) return;
  const std::int64_t samples = options.samples_per_step(size());
  samples_per_step_ = static_cast<double>(samples);
  events_ = std::make_unique<EventFile>(tensorboard_, steps_done > 0 ? steps_done + 1 : 0);
  if (options.steps > steps_done) progress_ = std::make_unique<Progress>(options.steps, samples, steps_done);
}

// A full disk is no reason to lose the training.
void Reporter::add_scalar(const std::string& tag, double value, std::int64_t step) {
  log_scalar(tag, value, step);
  if (!events_) return;
  try {
    events_->add_scalar(tag, value, step);
  } catch (const std::exception& error) {
    events_.reset();
    say(fmt::format("warning: {}; training goes on without it", error.what()));
    go_on();
  }
}

void Reporter::step(const StepReport& report) {
  if (!shows_) return;
  progress_->step_done(report.loss, report.parts);
  const auto add = [&](const std::string& tag, double value) { add_scalar(tag, value, report.step + 1); };
  add("train/loss_of_rank_0", report.loss);
  for (const auto& [name, value] : report.parts) add("train/" + name + "_of_rank_0", value);
  add("train/learning_rate", report.learning_rate);
  add("train/gradient_norm", report.gradient_norm);
  add("train/sync_interval", static_cast<double>(report.sync_interval));
  add("train/drift", report.drift);
  const StepTime& time = report.time;
  if (time.whole > 0) add("train/samples_per_s", samples_per_step_ / time.whole);
  add("step_ms/data", time.data * 1e3);
  add("step_ms/compute", (time.whole - time.data - time.wait) * 1e3);
  add("step_ms/wait", time.wait * 1e3);
}

void Reporter::evaluation(const std::vector<Metric>& found, std::int64_t step) {
  if (!shows_) return;
  std::string line = fmt::format("held out after {} steps:", step);
  for (const Metric& metric : found) {
    const std::string tag = "held_out/" + metric.name;
    // The run that is gone on with may have evaluated after its last checkpoint, too.
    if (step != steps_done_ || !shows_scalar(tensorboard_, tag, step)) add_scalar(tag, metric.value, step);
    line += fmt::format("{} {} {:.{}f}", &metric == &found.front() ? "" : ",", metric.name, metric.value,
                        metric.is_count ? 0 : 4);
  }
  say(line);
}

void Reporter::go_on() {
  if (progress_) progress_->go_on();
}

void Reporter::say(const std::string& line) {
  if (!shows_) return;
  if (progress_) progress_->finish();
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

}  // namespace rueda::examples
