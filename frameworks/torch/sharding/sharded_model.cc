// SPDX-License-Identifier: Apache-2.0
#include "rueda/torch/sharding/sharded_model.h"

#include <fmt/format.h>

#include <utility>

#include "core/base/error.h"
#include "core/base/files/whole_file.h"
#include "core/engine/runtime.h"
#include "core/observe/training/training_record.h"
#include "frameworks/torch/reducer/generations.h"
#include "frameworks/torch/sharding/state_dict.h"
#include "frameworks/torch/sharding/unit_scheduler.h"
#include "rueda/torch/state/stateful.h"

namespace rueda {

UnitCall::UnitCall(std::shared_ptr<UnitScheduler> units, const torch::nn::Module* unit)
    : units_(std::move(units)) {
  if (unit == nullptr) {
    unit_ = UnitScheduler::kRoot;
  } else {
    unit_ = units_->units_->find(*unit);
  }
  if (unit_) units_->enter(*unit_);
}

UnitCall::~UnitCall() {
  if (unit_) units_->leave(*unit_);
}

void UnitCall::watch(const at::Tensor& output) {
  if (unit_) units_->watch(output, *unit_);
}

void UnitCall::check_root() const {
  if (unit_) units_->check_root(*unit_);
}

ShardedModelPart::ShardedModelPart(torch::nn::Module& module, const ShardedModelOptions& options,
                                   Runtime& runtime)
    : units_(std::make_shared<UnitScheduler>(module, options, runtime,
                                             Generations::of_process().is_deferred(runtime))) {}

ShardedModelPart::~ShardedModelPart() = default;

bool ShardedModelPart::shares_parameters() const { return units_->shared(); }
GradientNorm ShardedModelPart::clip_grad_norm(double most) { return units_->clip(most); }
void ShardedModelPart::forget_gradients() { units_->forget_gradients(); }

ShardedModelPart::Groups ShardedModelPart::pieces(const Groups& groups) const {
  return units_->make_groups(groups);
}
ShardedModelPart::Groups ShardedModelPart::pieces_of_all() const {
  return units_->make_groups({torch::optim::OptimizerParamGroup(units_->parameters())});
}

void ShardedModelPart::step_pieces(const Optimizer& optimizer) {
  TrainingRecord::of_process().begin_phase(Phase::step);
  units_->prepare_step();
  step_parts(optimizer);
  TrainingRecord::of_process().end_step();
}

RecoverableParts& ShardedModelPart::recoverable() const { return units_->recoverable(); }
void ShardedModelPart::step_begins() { units_->step_begins(); }
void ShardedModelPart::begin_generation(Runtime&) { units_->begin_generation(); }

void ShardedModelPart::drop_gradients() {
  for (const at::Tensor& parameter : units_->parameters()) parameter.mutable_grad().reset();
  if (!units_->recoverable().may_be_due()) units_->forget_gradients();
}

void ShardedModelPart::save_part(torch::serialize::OutputArchive& archive, const Optimizer& optimizer) const {
  write(archive, saved_part(*units_, optimizer));
}

void ShardedModelPart::load_whole(torch::serialize::InputArchive& archive, Optimizer& optimizer,
                                  const MakeState& make_state) {
  bool given = false;
  load_saved(*units_, optimizer, make_state, [&](SavedModel& saved) {
    if (std::exchange(given, true)) return false;
    saved = read_saved_model(archive);
    return true;
  });
}

void ShardedModelPart::load_files(const std::vector<std::string>& files, Optimizer& optimizer,
                                  const MakeState& make_state, const LoadOptions& options) {
  auto next = files.begin();
  load_saved(*units_, optimizer, make_state, [&](SavedModel& saved) {
    if (next == files.end()) return false;
    const std::string& file = *next++;
    const std::string failure = failure_of([&] { saved = saved_of(read_file(file), options); });
    if (!failure.empty()) refuse(fmt::format("load_parts '{}': {}", file, failure));
    return true;
  });
}

SavedModel ShardedModelPart::gather_state(const Optimizer& optimizer, Rank root) const {
  return gather_saved(*units_, optimizer, root);
}
void ShardedModelPart::scatter_state(Optimizer& optimizer, const MakeState& make_state,
                                     const SavedModel& saved, Rank root) {
  scatter_saved(*units_, optimizer, make_state, saved, root);
}

}  // namespace rueda
