// SPDX-License-Identifier: Apache-2.0
#include "core/engine/backend.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"

namespace rueda {

bool Backend::on_peers_known(const std::vector<std::string>&, const std::function<void()>&) { return false; }

namespace {

std::string why_nobody(const std::vector<std::unique_ptr<Backend>>& backends, const Plan& plan) {
  const bool has_devices =
      std::ranges::any_of(backends, [&](const auto& each) { return each->device() == plan.device; });
  if (plan.capture != 0 && has_devices) {
    return ": a graph cannot hold it; that takes NCCL, a device for each rank, and an operation and a "
           "reduction that NCCL knows (README of ops, \"In a graph\").";
  }
  return fmt::format(
      ": rank 0, which is not one of its ranks, has nothing that could carry it out on {} devices; run a "
      "Rueda built with RUEDA_CUDA on all ranks.",
      to_string(plan.device));
}

}  // namespace

std::uint8_t able_backend(const std::vector<std::unique_ptr<Backend>>& backends, Plan& plan, int preference) {
  std::size_t found = backends.size();
  for (std::size_t i = 0; i < backends.size() && preference >= 0; ++i) {
    if (backends[i]->device() != plan.device || !backends[i]->can_run(plan)) continue;
    found = i;
    --preference;
  }
  if (found == backends.size()) {
    RUEDA_ASSERT(plan.device != DeviceKind::host);
    plan.status = Status::backend_error(title(*plan.tensors.front().request) + why_nobody(backends, plan));
    return 0;
  }
  backends[found]->decide(plan);
  return static_cast<std::uint8_t>(found);
}

}  // namespace rueda
