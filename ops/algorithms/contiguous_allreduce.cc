// SPDX-License-Identifier: Apache-2.0
#include "ops/algorithms/contiguous_allreduce.h"

#include <utility>

#include "ops/algorithms/doubling_allreduce.h"
#include "ops/algorithms/passes/ordered_pass.h"
#include "ops/algorithms/ring_allreduce.h"

namespace rueda {
namespace {

// Purpose: runs the two halves one after the other. The second may receive into memory from which the first
// sends.
class OrderedAllreduce final : public Algorithm {
 public:
  OrderedAllreduce(OrderedPass::Job reduce, RingPass::Job gather)
      : reducing_(std::move(reduce)), gathering_(std::move(gather)) {}

  Step step() override {
    if (reduced_) return gathering_.step();
    const Step step = reducing_.step();
    if (step != Step::done) return step;
    reduced_ = true;
    return Step::again;
  }
  std::string_view phase() const override { return reduced_ ? gathering_.phase() : reducing_.phase(); }

 private:
  OrderedPass reducing_;
  RingPass gathering_;
  bool reduced_ = false;
};

}  // namespace

PlanRoute route_of_allreduce(const ScaledReduction& reduction) {
  switch (reduction.pairing) {
    case Pairing::doubling: return {.between = "recursive doubling"};
    case Pairing::halving: return {.between = "recursive halving"};
    case Pairing::none: break;
  }
  if (reduction.order == ReductionOrder::fixed) return {.between = "fixed order"};
  return {.between = "ring", .sent_as = reduction.compression};
}

std::unique_ptr<Algorithm> contiguous_allreduce(const Route& route, const ScaledReduction& reduction,
                                                const void* input, void* output, std::int64_t elements,
                                                const std::optional<SquaredNorm>& squares) {
  if (reduction.pairing != Pairing::none) {
    return std::make_unique<DoublingAllreduce>(
        DoublingAllreduce::Job{route, reduction, static_cast<const std::byte*>(input),
                               static_cast<std::byte*>(output), elements, squares});
  }
  RingPass::Job ring = ring_allreduce_job(route, reduction, input, output, elements);
  if (reduction.order == ReductionOrder::any) {
    ring.squares = squares;
    return std::make_unique<RingPass>(std::move(ring));
  }
  OrderedPass::Job ordered{route, reduction, ring.schedule.bounds, ring.input, nullptr, squares};
  const std::int64_t own = ordered.bounds[route.group.index];
  ordered.output = at(ring.output, own * static_cast<std::int64_t>(size_of(reduction.dtype)));
  ring.schedule.reduces = false;
  return std::make_unique<OrderedAllreduce>(std::move(ordered), std::move(ring));
}

}  // namespace rueda
