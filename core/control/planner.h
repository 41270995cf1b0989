// SPDX-License-Identifier: Apache-2.0
// Turns tensors that every rank has into Plans: the part of the caller at rank 0 that fuses.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "core/control/knobs.h"
#include "core/control/plan.h"

namespace rueda {

// What every member of its process set has submitted, but for those that have joined.
struct ReadyRequest {
  ReadyRequest(SharedRequest wish, RankSet without = {})
      : request(std::move(wish)), joined(std::move(without)) {}

  SharedRequest request;
  RankSet joined;  // told where it is measured
};

// Purpose: makes Plans from agreed requests, in the order given, fusing what can share a buffer. Owned by the
// Caller at rank 0. Cost: linear in the number of requests times the number of fused Plans that are open.
class Planner {
 public:
  // Tells which backend carries out a Plan: an index that is valid on every rank. Also fills in its members,
  // and what that backend wants all ranks to do alike.
  using ChooseBackend = std::function<std::uint8_t(Plan&)>;

  // `second_backend`: the next best one, for Plans larger than Knobs::route_bytes; may be none.
  Planner(const Knobs& knobs, ChooseBackend first_backend, ChooseBackend second_backend = {})
      : knobs_(knobs), first_backend_(std::move(first_backend)), second_backend_(std::move(second_backend)) {}

  // From now on.
  void use(const Knobs& knobs) { knobs_ = knobs; }

  std::vector<Plan> fuse(std::vector<ReadyRequest>&& ready);
  // A Plan that completes one tensor with an error.
  Plan refuse(SharedRequest request, Status status);
  // A Plan of an operation that moves no data, and its result.
  Plan decide(SharedRequest request, std::int64_t result);

 private:
  bool fits(const Plan& plan, const ReadyRequest& ready) const;

  Knobs knobs_;
  ChooseBackend first_backend_;
  ChooseBackend second_backend_;
};

}  // namespace rueda
