// SPDX-License-Identifier: Apache-2.0
// Turns tensors that every rank has into Plans: the part of the coordinator that fuses.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/control/messages/plan.h"
#include "core/control/scheduling/tuning_parameters.h"

namespace rueda {

// A request that every member of its process set has submitted, except for members that have joined.
struct ReadyRequest {
  ReadyRequest(SharedRequest asked, RankSet without = {})
      : request(std::move(asked)), joined(std::move(without)) {}

  SharedRequest request;
  RankSet joined;  // told where it is measured
};

// Returns true if the request may share a buffer with others. A host keeps the unsent rest of a topk tensor
// under that tensor's name, so topk tensors share none.
bool may_share_buffer(const Request& request);

// Purpose: makes Plans from agreed requests, in the order given, fusing what can share a buffer. Owned by the
// Coordinator at rank 0. Cost: linear in the number of requests times the number of fused Plans that are
// open.
class FusionPlanner {
 public:
  // Tells which backend carries out a Plan: an index that is valid on every rank. Fills in what that backend
  // wants all ranks to do alike. RootState passes functions that fill in the Plan's members first.
  using ChooseBackend = std::function<std::uint8_t(Plan&)>;

  // `second_backend`: the next best one, for Plans larger than TuningParameters::route_bytes; may be none.
  FusionPlanner(const TuningParameters& parameters, ChooseBackend first_backend,
                ChooseBackend second_backend = {})
      : parameters_(parameters),
        first_backend_(std::move(first_backend)),
        second_backend_(std::move(second_backend)) {}

  // From now on.
  void use(const TuningParameters& parameters) { parameters_ = parameters; }

  std::vector<Plan> fuse(std::vector<ReadyRequest>&& ready);
  // A Plan that completes one tensor with an error.
  Plan refuse(SharedRequest request, Status status);
  // A Plan of an operation that moves no data, and its result.
  Plan decide(SharedRequest request, std::int64_t result);

 private:
  bool fits(const Plan& plan, const ReadyRequest& ready) const;

  TuningParameters parameters_;
  ChooseBackend first_backend_;
  ChooseBackend second_backend_;
};

}  // namespace rueda
