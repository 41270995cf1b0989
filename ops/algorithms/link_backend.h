// SPDX-License-Identifier: Apache-2.0
// Every operation by messages: the algorithms over some Link.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/system/owner_thread.h"
#include "core/engine/backend.h"
#include "ops/buffers/fusion_buffer.h"
#include "ops/buffers/work_memory.h"
#include "ops/compression/error_feedback.h"
#include "ops/link/link.h"
#include "ops/selection/algorithm_selector.h"

namespace rueda {

// Purpose: the backend of mpi, of tcp, and of any other Link. Runs every Plan, once its link is `connected`;
// `selector` says which allreduces go in pairs, none without it.
// Owned by the background thread.
class LinkBackend final : public Backend {
 public:
  LinkBackend(
      std::string name, std::shared_ptr<Link> link, Rank rank, bool rings_doorbell, Memory memory = Memory(),
      std::function<bool()> connected = [] { return true; },
      std::optional<AlgorithmSelector> selector = std::nullopt)
      : name_(std::move(name)),
        link_(std::move(link)),
        rank_(rank),
        rings_doorbell_(rings_doorbell),
        memory_(std::move(memory)),
        buffers_(memory_),
        connected_(std::move(connected)),
        selector_(std::move(selector)) {}

  std::string_view name() const override { return name_; }
  bool on_peers_known(const std::vector<std::string>& hosts, const std::function<void()>& alive) override;
  bool can_run(const Plan&) const override { return connected_(); }
  void decide(Plan& plan) const override {
    if (selector_) plan.pairing = selector_->pairing(plan);
  }
  std::unique_ptr<Work> start(const Plan& plan, std::span<Entry> entries) override;
  double predicted_seconds(const Plan& plan) const override {
    return selector_ ? selector_->predicted_seconds(plan) : 0;
  }
  bool rings_doorbell() const override { return rings_doorbell_; }

  // For Works that use messages for a part of their way.
  Link& link() { return *link_; }
  const Memory& memory() const { return memory_; }
  const std::optional<AlgorithmSelector>& selector() const { return selector_; }
  ErrorFeedback& error_feedback() { return error_feedback_; }

 private:
  std::string name_;
  std::shared_ptr<Link> link_;
  Rank rank_;
  bool rings_doorbell_;
  Memory memory_;
  FusionBuffer buffers_;
  ErrorFeedback error_feedback_;
  std::function<bool()> connected_;
  std::optional<AlgorithmSelector> selector_;
  OwnerThread owner_;
};

}  // namespace rueda
