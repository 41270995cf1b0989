// SPDX-License-Identifier: Apache-2.0
// Every operation by messages: the algorithms over some Link.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/base/owner_thread.h"
#include "core/engine/backend.h"
#include "ops/fusion_buffer.h"
#include "ops/link.h"
#include "ops/memory.h"
#include "ops/residuals.h"

namespace rueda {

// Purpose: the backend of mpi, of tcp, and of any other Link. Runs every Plan, once its link is `connected`.
// Owned by the coordinator thread.
class LinkBackend final : public Backend {
 public:
  LinkBackend(
      std::string name, std::unique_ptr<Link> link, Rank rank, bool rings_bell, Memory memory = Memory(),
      std::function<bool()> connected = [] { return true; })
      : name_(std::move(name)),
        link_(std::move(link)),
        rank_(rank),
        rings_bell_(rings_bell),
        memory_(std::move(memory)),
        buffers_(memory_),
        connected_(std::move(connected)) {}

  std::string_view name() const override { return name_; }
  bool can_run(const Plan&) const override { return connected_(); }
  std::unique_ptr<Work> start(const Plan& plan, std::span<Entry> entries) override;
  bool rings_bell() const override { return rings_bell_; }

  // For Works that use messages for a part of their way.
  Link& link() { return *link_; }
  const Memory& memory() const { return memory_; }
  Residuals& residuals() { return residuals_; }

 private:
  std::string name_;
  std::unique_ptr<Link> link_;
  Rank rank_;
  bool rings_bell_;
  Memory memory_;
  FusionBuffer buffers_;
  Residuals residuals_;
  std::function<bool()> connected_;
  OwnerThread owner_;
};

}  // namespace rueda
