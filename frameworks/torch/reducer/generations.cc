// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/reducer/generations.h"

#include "core/default_runtime.h"
#include "rueda/rueda.h"
#include "rueda/torch/reducer/gradient_reducer.h"

namespace rueda {
namespace {

bool is_default(const Scope& scope) { return is_initialized() && &scope.runtime() == &default_runtime(); }

}  // namespace

Generations& Generations::of_process() {
  static Generations generations;
  return generations;
}

bool Generations::ranks_come_alone() const { return running_ == 0 && is_elastic(); }

bool Generations::is_deferred(const Scope& scope) const { return ranks_come_alone() && is_default(scope); }

void Generations::add(GradientReducer& reducer, const Scope& scope) {
  if (running_ > 0 || !is_default(scope)) return;
  const std::lock_guard lock(mutex_);
  members_.push_back({&reducer, is_deferred(scope) ? 0 : jobs_begun()});
}

void Generations::remove(GradientReducer& reducer) {
  const std::lock_guard lock(mutex_);
  std::erase_if(members_, [&](const Member& each) { return each.reducer == &reducer; });
}

void Generations::begin() {
  const std::lock_guard lock(mutex_);
  const std::uint64_t job = jobs_begun();
  for (Member& each : members_) {
    if (each.job != job) each.reducer->end_generation();
  }
  for (Member& each : members_) {
    if (each.job == job) continue;
    each.reducer->begin_generation();
    each.job = job;
  }
}

}  // namespace rueda
