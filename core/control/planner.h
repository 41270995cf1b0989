// SPDX-License-Identifier: Apache-2.0
// Turns tensors that every rank has into Plans: the part of the caller at rank 0 that fuses.
#pragma once

#include <functional>
#include <vector>

#include "core/control/plan.h"

namespace rueda {

// Purpose: makes Plans from agreed requests, in the order given, fusing what can share a buffer. Owned by the
// Caller at rank 0. Cost: linear in the number of requests times the number of fused Plans that are open.
class Planner {
 public:
  // Tells which backend carries out a Plan: an index that is valid on every rank. Also fills in its members.
  using ChooseBackend = std::function<std::uint8_t(Plan&)>;

  Planner(std::int64_t fusion_threshold, std::int64_t chunk_bytes, ChooseBackend choose_backend)
      : fusion_threshold_(fusion_threshold),
        chunk_bytes_(chunk_bytes),
        choose_backend_(std::move(choose_backend)) {}

  std::vector<Plan> fuse(const std::vector<SharedRequest>& ready);
  // A Plan that completes one tensor with an error.
  Plan refuse(SharedRequest request, Status status);
  // A Plan of an operation that moves no data, and its result.
  Plan decide(SharedRequest request, std::int64_t result);

 private:
  bool fits(const Plan& plan, const Request& request) const;

  std::int64_t fusion_threshold_;
  std::int64_t chunk_bytes_;
  ChooseBackend choose_backend_;
};

}  // namespace rueda
