// SPDX-License-Identifier: Apache-2.0
#include "ops/algorithms/link_backend.h"

#include "core/engine/submissions/submission.h"
#include "ops/algorithms/adasum.h"
#include "ops/algorithms/barrier.h"
#include "ops/algorithms/contiguous_allreduce.h"
#include "ops/algorithms/fused_allreduce.h"
#include "ops/algorithms/pairwise_alltoall.h"
#include "ops/algorithms/reducescatter.h"
#include "ops/algorithms/ring_allgather.h"
#include "ops/algorithms/sparse_sum.h"
#include "ops/algorithms/topk_allreduce.h"
#include "ops/algorithms/tree_broadcast.h"
#include "ops/arithmetic/squared_norm.h"

namespace rueda {
namespace {

// The state that all Works of one backend share.
struct Shared {
  FusionBuffer& buffers;
  ErrorFeedback& feedback;
};

std::unique_ptr<Algorithm> allreduce(const Route& route, const Plan& plan, std::span<Entry> entries,
                                     const Shared& shared) {
  if (plan.reduce_op == ReduceOp::adasum) return adasum(route, plan, entries, shared.buffers);
  if (plan.compression == Compression::topk && route.group.size > 1)
    return topk_allreduce(route, plan, entries.front(), shared.feedback);
  const Submission& first = entries.front().submission();
  if (entries.size() > 1 || !first.input.contiguous() || !first.output.contiguous()) {
    return fused_allreduce(route, plan, entries, shared.buffers);
  }
  return contiguous_allreduce(route, ScaledReduction::of(plan, route.group.size), first.input.data,
                              first.output.data, first.input.elements(),
                              SquaredNorm::on_the_way(plan, entries));
}

std::unique_ptr<Algorithm> algorithm(const Route& route, const Plan& plan, std::span<Entry> entries,
                                     const Shared& shared) {
  switch (plan.operation) {
    case Operation::allreduce: return allreduce(route, plan, entries, shared);
    case Operation::allgather: return ring_allgather(route, entries.front());
    case Operation::broadcast: return tree_broadcast(route, plan.root, entries.front());
    case Operation::alltoall: return pairwise_alltoall(route, entries.front());
    case Operation::reducescatter:
      return reducescatter(route, ScaledReduction::of(plan, route.group.size), entries.front());
    case Operation::barrier: return barrier(route);
    case Operation::reduce:
    case Operation::gather:
    case Operation::scatter:
    case Operation::message:
    case Operation::join:
    case Operation::add_process_set:
    case Operation::remove_process_set: break;
  }
  return nullptr;
}

PlanRoute route_of_allreduce(const Plan& plan, Rank ranks) {
  if (plan.reduce_op == ReduceOp::adasum) return {.between = "Adasum"};
  if (plan.compression == Compression::topk && ranks > 1) return SparseSum::route();
  return rueda::route_of_allreduce(ScaledReduction::of(plan, ranks));
}

// As algorithm() takes it.
PlanRoute route_of(const Plan& plan, Rank ranks) {
  switch (plan.operation) {
    case Operation::allreduce: return route_of_allreduce(plan, ranks);
    case Operation::allgather: return {.between = "ring"};
    case Operation::broadcast: return {.between = "tree"};
    case Operation::alltoall: return {.between = "pairs"};
    case Operation::reducescatter:
      if (plan.reduction_order == ReductionOrder::fixed) return {.between = "fixed order"};
      return {.between = "ring", .sent_as = ScaledReduction::of(plan, ranks).compression};
    case Operation::barrier: return {.between = "dissemination"};
    case Operation::reduce:
    case Operation::gather:
    case Operation::scatter:
    case Operation::message:
    case Operation::join:
    case Operation::add_process_set:
    case Operation::remove_process_set: break;
  }
  return {};
}

// Purpose: an algorithm and the channels under it, one Plan's.
class LinkWork final : public Work {
 public:
  LinkWork(Link& link, Tag tag, const PlanRoute& route)
      : channel_(link, tag), sizes_(link, tag), route_(route) {}

  void begin(Route route, const Plan& plan, std::span<Entry> entries, const Shared& shared) {
    route.channel = &channel_;
    route.sizes = &sizes_;
    algorithm_ = algorithm(route, plan, entries, shared);
  }

  Step step() override {
    const Step step = algorithm_->step();
    return step == Step::done && channel_.abandoned() ? Step::given_up : step;
  }
  void abandon() override { channel_.abandon(); }
  std::string_view phase() const override {
    return channel_.abandoned() ? "abandoning an operation that failed" : algorithm_->phase();
  }
  PlanRoute route() const override { return route_; }

 private:
  Channel channel_;
  Channel sizes_;
  const PlanRoute route_;
  std::unique_ptr<Algorithm> algorithm_;  // refers to the channels
};

}  // namespace

bool LinkBackend::on_peers_known(const std::vector<std::string>& hosts, const std::function<void()>& alive) {
  owner_.check();
  if (!connected_()) return false;
  if (selector_) selector_->measure(*link_, rank_, hosts, alive);
  return true;
}

std::unique_ptr<Work> LinkBackend::start(const Plan& plan, std::span<Entry> entries) {
  owner_.check();
  const Group group = Group::of(plan, rank_);
  auto work = std::make_unique<LinkWork>(*link_, tag_of(plan.number), route_of(plan, group.size));
  work->begin({nullptr, nullptr, &memory_, group, plan.chunk_bytes}, plan, entries,
              {buffers_, error_feedback_});
  if (SquaredNorm::on_the_way(plan, entries)) return work;
  return measured_after(std::move(work), plan, entries, rank_);
}

}  // namespace rueda
