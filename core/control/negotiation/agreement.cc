// SPDX-License-Identifier: Apache-2.0
#include "core/control/negotiation/agreement.h"

#include <fmt/format.h>

#include <cstddef>
#include <string>

#include "core/base/operation_traits.h"

namespace rueda {
namespace {

// Whether `request` can be carried out for ranks that have joined, too.
Status refusal_without(const RankSet& joined, const Request& request, bool full_join) {
  const std::string who = to_string(joined) + (joined.count() == 1 ? " has" : " have");
  const bool may_join = request.operation == Operation::allreduce ||
                        request.operation == Operation::barrier || request.operation == Operation::join;
  const bool full = full_join && !(traits(request.operation).has_root && joined.contains(request.root));
  if (!may_join && !full) {
    return Status::invalid_argument(fmt::format(
        "{}: {} joined and will not take part. Between a rank's join() and everybody's, only allreduce and "
        "barrier are possible{}.",
        title(request), who,
        full_join ? ", and other operations but a broadcast from there" : " (more with RUEDA_FULL_JOIN=1)"));
  }
  const bool zeros = request.reduce_op == ReduceOp::sum || request.reduce_op == ReduceOp::average ||
                     request.reduce_op == ReduceOp::adasum;
  if (!zeros && request.prescale_factor != 1.0) {
    return Status::invalid_argument(
        fmt::format("{}: {} joined, and what stands in for it would be scaled by the prescale factor {}, "
                    "which changes a {}. "
                    "Scale before or after the operation.",
                    title(request), who, request.prescale_factor, to_string(request.reduce_op)));
  }
  return {};
}

}  // namespace

Status disagreement(const Readiness& readiness, const RankSet& members, const RankSet& departed_ranks,
                    bool full_join) {
  const Request& first = *readiness.request();
  const RankSet missing = members - readiness.reported();
  const RankSet departed = missing & departed_ranks;
  if (!departed.empty()) {
    return Status::shut_down(fmt::format(
        "{}: {} shut down without it, while {} asked for it. Submit it on every rank, or on none.",
        title_of_all(first), to_string(departed), to_string(readiness.reported())));
  }
  if (!readiness.agreed()) return readiness.mismatch();
  if (missing.empty()) return {};
  Status status = refusal_without(missing, first, full_join);
  for (std::size_t i = 0; i < first.others.size() && status.ok(); ++i)
    status = refusal_without(missing, first.others[i], full_join);
  return status;
}

}  // namespace rueda
