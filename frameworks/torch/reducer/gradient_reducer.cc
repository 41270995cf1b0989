// SPDX-License-Identifier: Apache-2.0
#include "rueda/torch/reducer/gradient_reducer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/engine/runtime.h"
#include "core/observe/operations_ended.h"
#include "core/observe/training/training_record.h"
#include "frameworks/torch/local_sgd/parameter_average.h"
#include "frameworks/torch/reducer/generations.h"
#include "frameworks/torch/reducer/gradient_norm.h"
#include "frameworks/torch/reducer/gradient_options.h"
#include "frameworks/torch/reducer/gradient_sync.h"

namespace rueda {
GradientReducer::GradientReducer(const std::vector<at::Tensor>& parameters, const DistributedOptions& options,
                                 const Scope& scope)
    : given_(parameters),
      parameters_(without_repetitions(parameters)),
      options_(options),
      scope_(scope),
      steps_of_gradients_(options.schedule.kind() == SyncSchedule::Kind::accumulate ? options.schedule.steps()
                                                                                    : 1) {
  if (!Generations::of_process().is_deferred(scope)) begin_generation();
  Generations::of_process().add(*this, scope);
}

GradientReducer::~GradientReducer() {
  Generations::of_process().remove(*this);
  if (!stands_apart()) return;
  log(LogLevel::warning,
      "rank {}: an optimizer with schedule {} ends, and what it has begun is lost: call flush() at the end.",
      sync_->rank(), options_.schedule.to_string());
}

void GradientReducer::end_generation() {
  if (sync_) sync_->release_used_gradients();
}

void GradientReducer::begin_generation() {
  end_generation();
  average_.reset();
  sync_.reset();
  clipped_step_ = 0;  // steps count anew
  forget_kept();
  const Scope scope = scope_.get();
  auto sync = std::make_unique<GradientSync>(given_, options_, scope);
  if (is_elastic()) sync->prepare();  // a generation begins in the midst of training
  if (options_.schedule.averages_parameters()) {
    average_ = std::make_unique<ParameterAverage>(parameters_, names_of(parameters_, options_, sync->rank()),
                                                  options_.schedule, options_.compression,
                                                  options_.compression_share, scope);
  }
  sync_ = std::move(sync);
}

// Without elastic::run() its generation begins when it is used first.
GradientSync& GradientReducer::sync() {
  if (!sync_) begin_generation();
  return *sync_;
}

// A graph does the same each time.
void GradientReducer::check_captured() const {
  if (!sync_ || options_.schedule == SyncSchedule::every_step() || !sync_->is_captured()) return;
  refuse(
      fmt::format("rank {}: a step with schedule {} is captured, and it is not the same each time; capture "
                  "steps of every_step.",
                  sync_->rank(), options_.schedule.to_string()));
}

bool GradientReducer::synchronize() {
  check_captured();
  if (keeps()) return false;
  tried_ = true;
  GradientSync& sync = this->sync();
  if (!average_) return sync.synchronize();
  sync.average_passes();
  return true;
}

GradientNorm GradientReducer::norm_of_step() const {
  const std::optional<double> norm = average_ || skips_ > 0 ? std::nullopt : sync_->norm();
  if (!norm) return norm_of_gradients(parameters_);
  return clipped_step_ == sync_->steps() ? clipped_to_ : *norm;
}

GradientNorm GradientReducer::grad_norm() {
  if (skips_ > 0) {
    sync_->check_not_reducing("the norm of gradients under skip_synchronize()");
    sync_->show_local_gradients();
  } else if (!synchronize()) {
    return 0.0;
  }
  return norm_of_step();
}

void GradientReducer::clip(const GradientNorm& norm, double max_norm) {
  if (!clip_gradients(parameters_, norm, max_norm)) return;
  clipped_to_ = max_norm;
  clipped_step_ = sync_->steps();
}

GradientNorm GradientReducer::clip_grad_norm_(double max_norm) {
  if (!(max_norm > 0))
    refuse(fmt::format("rank {}: clip_grad_norm_ to {}; it must be greater than 0", sync().rank(), max_norm));
  const GradientNorm norm = grad_norm();
  clip(norm, max_norm);
  return norm;
}

void GradientReducer::check_skip() {
  if (options_.schedule != SyncSchedule::every_step()) {
    refuse(
        fmt::format("rank {}: skip_synchronize() with schedule {}, which decides itself when ranks "
                    "synchronise; choose every_step for steps without",
                    sync().rank(), options_.schedule.to_string()));
  }
  sync().show_local_gradients();
}

GradientReducer::Skip GradientReducer::skip_synchronize() {
  check_skip();
  return Skip(*this);
}

GradientReducer::NoSync::NoSync(GradientReducer& reducer) : reducer_(reducer) { reducer_.sync().pause(+1); }
GradientReducer::NoSync::~NoSync() { reducer_.sync().pause(-1); }

void GradientReducer::refresh_hooks() { sync().refresh_hooks(); }

bool GradientReducer::before_step() {
  sync();
  check_captured();
  if (keeps()) {
    ++kept_;
    return false;
  }
  bool steps = true;
  if (skips_ > 0) {
    sync_->throw_failure();
    sync_->check_not_reducing("step() under skip_synchronize()");
    sync_->show_local_gradients();
  } else {
    steps = synchronize();
  }
  TrainingRecord::of_process().begin_phase(Phase::step);
  sync_->share_slots();
  sync_->begin_step();
  if (steps) sync_->note_use();
  forget_kept();
  if (average_) average_->before_step();
  return steps;
}

void GradientReducer::after_step() {
  if (average_) average_->after_step();
  TrainingRecord::of_process().end_step();
  if (!steps_.counted) return;
  ++steps_.taken;
  steps_.operations = operations_ended(sync().scope().runtime().metrics());
}

bool GradientReducer::nothing_since_step() const {
  return sync_ && steps_.operations == operations_ended(sync_->scope().runtime().metrics());
}

// Once they have been reduced, or that has failed, the gradients that were kept may go.
bool GradientReducer::before_zero_grad() {
  if (kept_ > 0 && !tried_) return false;
  sync().check_not_reducing("zero_grad()");
  sync_->begin_step();
  forget_kept();
  return true;
}

void GradientReducer::forget_kept() {
  kept_ = 0;
  tried_ = false;
}

bool GradientReducer::flush(std::optional<double> max_norm) {
  sync();
  if (average_) average_->flush();
  if (kept_ > 0) {
    sync_->synchronize(/*whole=*/false);
  } else if (!sync_->land()) {
    return false;
  }
  if (max_norm) clip(norm_of_step(), *max_norm);
  sync_->begin_step();
  forget_kept();
  return true;
}

bool GradientReducer::stands_apart() const {
  return sync_ && (kept_ > 0 || (average_ && average_->steps_apart() > 0) || sync_->on_its_way());
}

void GradientReducer::check_flushed(const char* action) const {
  if (!stands_apart()) return;
  refuse(
      fmt::format("rank {}: {} in the middle of what schedule {} has begun: ranks would go on from it with "
                  "different parameters, or without a step; call flush() first, on every rank",
                  sync_->rank(), action, options_.schedule.to_string()));
}

bool GradientReducer::is_sync_step() const {
  return average_ ? average_->steps_apart() + 1 >= average_->interval() : !keeps();
}

std::int64_t GradientReducer::sync_interval() const {
  return average_ ? average_->interval() : steps_of_gradients_;
}

double GradientReducer::drift() const { return average_ ? average_->drift() : 0.0; }

void GradientReducer::save(torch::serialize::OutputArchive& archive) const {
  check_flushed("save()");
  if (average_) average_->save(archive);
}

void GradientReducer::load(torch::serialize::InputArchive& archive) {
  check_flushed("load()");
  if (average_) average_->load(archive);
}

void GradientReducer::check_parameters(const std::vector<at::Tensor>& parameters) const {
  if (std::ranges::equal(parameters, given_, {}, identity, identity)) return;
  refuse(
      fmt::format("rank {}: this optimizer was made for {} parameters and now has {} or others. Parameters "
                  "that were added later would not be reduced; make a new DistributedOptimizer for all.",
                  scope_.get().runtime().topology().rank, given_.size(), parameters.size()));
}

double GradientReducer::wait_seconds() const {
  return (sync_ ? sync_->wait_seconds() : 0.0) + (average_ ? average_->wait_seconds() : 0.0);
}

}  // namespace rueda
