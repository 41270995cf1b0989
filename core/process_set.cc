// SPDX-License-Identifier: Apache-2.0
#include "rueda/process_set.h"

#include <fmt/format.h>

#include <utility>

#include "core/base/error.h"
#include "core/engine/runtime.h"
#include "core/submission_arguments.h"

namespace rueda {
namespace {

// An operation that moves no data.
Submission decision(Operation operation) {
  Submission submission;
  submission.request.operation = operation;
  submission.request.dtype = DataType::uint8;
  submission.request.shape = {0};
  submission.input = ConstTensorView(nullptr, DataType::uint8, {0});
  return submission;
}

}  // namespace

bool ProcessSet::included() const { return ranks_->contains(runtime_->topology().rank); }
Rank ProcessSet::rank() const { return included() ? ranks_->index_of(runtime_->topology().rank) : -1; }

Rank Scope::size() const { return ranks_ ? ranks_->count() : runtime_->topology().size; }
bool Scope::included() const { return !ranks_ || ranks_->contains(runtime_->topology().rank); }

std::vector<ProcessSet> process_sets(Runtime& runtime) {
  std::vector<ProcessSet> sets;
  for (RankSet& ranks : members_of(runtime.static_sets())) {
    const auto id = static_cast<ProcessSetId>(sets.size() + 1);
    sets.emplace_back(runtime, id, std::move(ranks));
  }
  return sets;
}

ProcessSet add_process_set(const RankSet& ranks, Runtime& runtime) {
  Submission submission = decision(Operation::add_process_set);
  submission.request.members = ranks;
  const Handle handle = runtime.submit(std::move(submission), "process_set.add");
  handle.wait();
  return {runtime, static_cast<ProcessSetId>(handle.result()), ranks};
}

void remove_process_set(const ProcessSet& set, Runtime& runtime) {
  if (set.id() == kWorld) {
    throw InvalidArgument(
        Status::invalid_argument("Process set 0, of all ranks, cannot be removed; shutdown() ends it."));
  }
  Submission submission = decision(Operation::remove_process_set);
  submission.request.root = static_cast<Rank>(set.id());
  runtime.submit(std::move(submission), "process_set.remove").wait();
}

Rank join(Scope scope) {
  Runtime& runtime = scope.runtime();
  Submission submission = decision(Operation::join);
  set_scope(submission, scope);
  submission.request.root = runtime.topology().rank;
  const Handle handle = runtime.submit(std::move(submission), "join");
  handle.wait();
  runtime.restart_names(scope.process_set());
  return static_cast<Rank>(handle.result());
}

}  // namespace rueda
