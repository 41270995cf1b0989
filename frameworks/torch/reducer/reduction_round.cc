// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/reducer/reduction_round.h"

#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "core/engine/runtime.h"
#include "core/submission_arguments.h"
#include "frameworks/torch/collectives/tensor_adapter.h"

namespace rueda {

ReductionRound::ReductionRound(std::string name, const std::vector<Parameter>& parameters, Groups groups,
                               const Reduction& reduction, const ScopeReference& scope)
    : name_(std::move(name)),
      groups_(std::move(groups)),
      reduction_(reduction),
      scope_(scope),
      gradients_(parameters.size()),
      hooks_(parameters.size()) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& each = parameters[i];
    parameters_.push_back(each.name);
    if (!each.hook) continue;
    const std::string operation = fmt::format("{}.{}", name_, each.name);
    hooks_[i] = each.hook({operation, each.name, each.tensor, reduction_, scope_});
  }
  for (const std::optional<std::size_t>& group : groups_) {
    if (!group) continue;
    group_sizes_.resize(std::max(group_sizes_.size(), *group + 1));
    ++group_sizes_[*group];
  }
  waiting_.resize(group_sizes_.size());
}

std::string ReductionRound::name_of(std::size_t index) const {
  return hooks_[index] ? "" : fmt::format("{}.{}", name_, parameters_[index]);
}

void ReductionRound::submit(std::size_t index, PlacedGradient placed) {
  const auto& [gradient, placement] = placed;
  const std::optional<std::size_t> group = groups_[index];
  if (hooks_[index]) {
    gradients_[index].memory = gradient;
    group ? waiting_[*group].push_back({index, {}}) : begin_hook(index);
    if (group) submit_if_complete(*group);
    return;
  }
  auto tensors = std::make_shared<OperationTensors>(gradient, gradient);
  Submission submission = submission_for(Operation::allreduce, name_of(index), tensors);
  set_reduction(submission.request, reduction_);
  submission.request.elsewhere = placement == GradientPlacement::elsewhere;
  const Scope scope = scope_.get();
  set_scope(submission, scope);
  if (group) {
    waiting_[*group].push_back({index, std::move(submission)});
  } else {
    gradients_[index].handle = scope.runtime().submit(std::move(submission));
  }
  mark_changed(gradient);
  if (placement == GradientPlacement::in_slot) gradients_[index].placed = std::move(tensors);
  gradients_[index].memory = gradient;
  if (group) submit_if_complete(*group);
}

void ReductionRound::begin_hook(std::size_t index) {
  hooks_[index]->begin(gradients_[index].memory);
  gradients_[index].hooked = true;
}

void ReductionRound::submit_stand_in(std::size_t index, PlacedGradient zeros) {
  gradients_[index].stand_in = true;
  submit(index, std::move(zeros));
}

// Hooks begin when all of the group is there, and each has operations of its own.
void ReductionRound::submit_if_complete(std::size_t group) {
  if (waiting_[group].size() < group_sizes_[group]) return;
  std::vector<Waiting> members = std::exchange(waiting_[group], {});
  std::vector<std::size_t> whole;
  std::vector<Submission> submissions;
  for (Waiting& each : members) {
    if (hooks_[each.index]) {
      begin_hook(each.index);
    } else {
      whole.push_back(each.index);
      submissions.push_back(std::move(each.submission));
    }
  }
  if (whole.empty()) return;
  const std::vector<Handle> handles = scope_.get().runtime().submit_group(std::move(submissions));
  for (std::size_t i = 0; i < handles.size(); ++i) gradients_[whole[i]].handle = handles[i];
}

bool ReductionRound::due(std::size_t index, const std::vector<float>& holders) const {
  if (holders[index] > 0.0F || !groups_[index]) return holders[index] > 0.0F;
  for (std::size_t i = 0; i < holders.size(); ++i) {
    if (groups_[i] == groups_[index] && holders[i] > 0.0F) return true;
  }
  return false;
}

std::optional<std::size_t> ReductionRound::first() const {
  const auto found =
      std::ranges::find_if(gradients_, [](const Gradient& each) { return each.memory.defined(); });
  if (found == gradients_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - gradients_.begin());
}

void ReductionRound::submit_presence() {
  std::vector<float> flags(2 * gradients_.size());  // whether it is here; how much of it
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    const Gradient& each = gradients_[i];
    const bool dense = each.memory.defined() && !each.stand_in;
    if (!dense && !each.sparse.defined()) continue;
    flags[i] = 1.0F;
    flags[gradients_.size() + i] = dense ? kDense : static_cast<float>(density_of(each.sparse));
  }
  presence_ =
      allreduce_async_(at::tensor(flags, at::kFloat), name_ + "/presence", {ReduceOp::sum}, scope_.get());
}

Status ReductionRound::holders(std::vector<float>& holders) {
  const Status status = presence_->wait_status();
  if (!status.ok()) return status;
  const at::Tensor sums = presence_->wait();
  const auto* values = sums.const_data_ptr<float>();
  holders.assign(values, values + gradients_.size());
  densities_.assign(values + gradients_.size(), values + 2 * gradients_.size());
  return status;
}

void ReductionRound::gather(std::size_t index, const at::Tensor& parameter) {
  Gradient& gradient = gradients_[index];
  const Scope scope = scope_.get();
  const double count = reduction_.op == ReduceOp::average ? scope.size() : 1.0;
  const at::Tensor mine =
      gradient.sparse.defined() ? std::exchange(gradient.sparse, at::Tensor()) : no_rows_of(parameter);
  gradient.gather.emplace(fmt::format("{}/rows.{}", name_, parameters_[index]), mine,
                          reduction_.prescale_factor * reduction_.postscale_factor / count, scope);
}

Status ReductionRound::wait_for(std::size_t index) {
  Gradient& gradient = gradients_[index];
  if (gradient.hooked) return hooks_[index]->finish();
  if (!gradient.gather) {
    Status reduced = gradient.handle.wait_status();
    if (!reduced.ok()) return reduced;
    hold_back_current_stream(gradient.handle, gradient.memory);
    if (gradient.placed) *gradient.placed = {};
    return reduced;
  }
  const Status status = gradient.gather->wait();
  gradient.memory = gradient.gather->result();
  return status;
}

// From the last to the first, as backward passes submit them: the second round of one is computed while
// others' first ones are on their way. Returns the first exception.
std::exception_ptr ReductionRound::advance_hooks() {
  int rounds = 1;
  for (const auto& hook : hooks_) rounds = hook ? std::max(rounds, hook->rounds()) : rounds;
  std::exception_ptr thrown;
  for (int round = 2; round <= rounds; ++round) {
    for (std::size_t i = gradients_.size(); i-- > 0;) {
      if (!gradients_[i].hooked || hooks_[i]->rounds() < round) continue;
      try {
        hooks_[i]->advance(round);
      } catch (...) {
        if (!thrown) thrown = std::current_exception();
      }
    }
  }
  return thrown;
}

// All are waited for, whatever fails: the next step uses their names again.
Status ReductionRound::wait() {
  std::exception_ptr thrown = advance_hooks();
  Status failure;  // of the first in order
  for (std::size_t i = gradients_.size(); i-- > 0;) {
    try {
      const Status status = wait_for(i);
      if (status.ok()) continue;
      failure = {status.code, fmt::format("gradient of parameter '{}': {}", parameters_[i], status.message)};
    } catch (...) {
      if (!gradients_[i].hooked) throw;
      if (!thrown) thrown = std::current_exception();
    }
  }
  if (thrown) std::rethrow_exception(thrown);
  return failure;
}

double ReductionRound::share_of_square_sum() const {
  double share = 0.0;
  const Scope scope = scope_.get();
  const bool is_first =
      scope.rank_at(0) == scope.runtime().topology().rank;  // it counts gathered gradients of all
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    const Gradient& each = gradients_[i];
    if (!each.memory.defined()) continue;
    if (each.hooked) {
      share += hooks_[i]->share_of_square_sum();
    } else if (!each.gather) {
      share += each.handle.share_of_square_sum();
    } else if (is_first) {
      const double norm =
          at::linalg_vector_norm(each.memory.values(), 2, {}, false, at::kDouble).item<double>();
      share += norm * norm;
    }
  }
  return share;
}

void ReductionRound::clear() {
  for (Gradient& each : gradients_) each = Gradient();
  for (std::vector<Waiting>& group : waiting_) group.clear();
  for (const auto& each : hooks_) {
    if (each) each->clear();
  }
  presence_.reset();
}

}  // namespace rueda
