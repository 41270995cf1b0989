// SPDX-License-Identifier: Apache-2.0
#include "core/engine/submissions/submission_rules.h"

#include <fmt/format.h>

#include <cstddef>
#include <memory>
#include <new>
#include <utility>

#include "core/base/error.h"
#include "core/base/operation_traits.h"
#include "core/engine/memory/output_pool.h"
#include "core/engine/submissions/validate.h"

namespace rueda {

void SubmissionRules::check(const Submission& submission) const {
  throw_if_error(validate(submission, rank_, world_));
}

void SubmissionRules::check_group(const std::vector<Submission>& group) const {
  for (const Submission& submission : group) check(submission);
  throw_if_error(validate_group(group));
}

void SubmissionRules::complete(Submission& submission) const {
  complete(submission.request);
  if (traits(submission.request.operation).has_root) complete_around_root(submission);
}

namespace {

// Adds memory for the result of a reduce that passes through a rank without being kept there.
void give_memory(Submission& submission) {
  using Both = std::pair<std::shared_ptr<void>, std::shared_ptr<std::byte>>;
  const Request& request = submission.request;
  const auto bytes = static_cast<std::size_t>(bytes_of(request));
  try {
    std::shared_ptr<std::byte> memory = OutputPool::of_process().allocate(bytes);
    submission.output = {memory.get(), request.dtype, request.shape, {}};
    submission.owner = std::make_shared<Both>(std::move(submission.owner), std::move(memory));
  } catch (const std::bad_alloc&) {
    throw BackendError(Status::backend_error(
        fmt::format("{}: no memory for what passes through this rank, {} bytes", title(request), bytes)));
  }
}

}  // namespace

void SubmissionRules::complete_around_root(Submission& submission) const {
  const Request& request = submission.request;
  const RankSet& members = submission.members ? *submission.members : world_;
  const auto ranks = static_cast<std::size_t>(members.count());
  switch (request.operation) {
    case Operation::reduce:
      if (!keeps_result(submission, rank_)) give_memory(submission);
      break;
    case Operation::gather:
      submission.splits.assign(ranks, 0);
      submission.splits[static_cast<std::size_t>(members.index_of(request.root))] = request.shape.front();
      break;
    case Operation::scatter:
      if (rank_ != request.root) submission.splits.assign(ranks, 0);
      break;
    default: break;
  }
}

void SubmissionRules::complete(Request& request) const {
  const bool reduces = traits(request.operation).reduces;
  if (!reduces) {
    request.reduction_order = ReductionOrder::any;
  } else if (order_ == ReductionOrder::fixed) {
    request.reduction_order = ReductionOrder::fixed;
  }
  const bool narrows = reduces && request.dtype == DataType::float32 &&
                       request.reduce_op != ReduceOp::adasum &&
                       request.reduction_order == ReductionOrder::any;
  const bool shares = can_send_a_share(request.operation, request.dtype, request.reduce_op);
  if (!narrows || (request.compression == Compression::topk && !shares)) {
    request.compression = Compression::none;
    request.compression_share = 1.0;
  }
}

}  // namespace rueda
