// SPDX-License-Identifier: Apache-2.0
#include "ops/link_backend.h"

#include "ops/algorithms/barrier.h"
#include "ops/algorithms/fused_allreduce.h"
#include "ops/algorithms/pairwise_alltoall.h"
#include "ops/algorithms/ring_allgather.h"
#include "ops/algorithms/ring_allreduce.h"
#include "ops/algorithms/ring_reducescatter.h"
#include "ops/algorithms/tree_broadcast.h"

namespace rueda {
namespace {

std::unique_ptr<Work> allreduce(const Route& route, const Plan& plan, std::span<Entry> entries,
                                FusionBuffer& buffers) {
  const Submission& first = entries.front().submission;
  if (entries.size() > 1 || !first.input.contiguous() || !first.output.contiguous()) {
    return fused_allreduce(route, plan, entries, buffers);
  }
  return ring_allreduce(route, ScaledReduction::of(plan, route.group.size), first.input.data,
                        first.output.data, first.input.elements());
}

}  // namespace

std::unique_ptr<Work> LinkBackend::start(const Plan& plan, std::span<Entry> entries) {
  owner_.check();
  const Route route{link_.get(), Group::of(plan, rank_), tag_of(plan.number), plan.chunk_bytes};
  switch (plan.operation) {
    case Operation::allreduce: return allreduce(route, plan, entries, buffers_);
    case Operation::allgather: return ring_allgather(route, entries.front());
    case Operation::broadcast: return tree_broadcast(route, plan.root, entries.front());
    case Operation::alltoall: return pairwise_alltoall(route, entries.front());
    case Operation::reducescatter:
      return ring_reducescatter(route, ScaledReduction::of(plan, route.group.size), entries.front());
    case Operation::barrier: return barrier(route);
    case Operation::join:
    case Operation::add_process_set:
    case Operation::remove_process_set: break;
  }
  return nullptr;
}

}  // namespace rueda
