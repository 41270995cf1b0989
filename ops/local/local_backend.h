// SPDX-License-Identifier: Apache-2.0
// Operations among one rank: copies, scaled where asked for.
#pragma once

#include "core/engine/backend.h"
#include "ops/buffers/work_memory.h"

namespace rueda {

// Purpose: the backend of a job, or a process set, of one rank. Owned by the background thread.
class LocalBackend final : public Backend {
 public:
  std::string_view name() const override { return "local"; }
  bool can_run(const Plan& plan) const override { return plan.members->count() == 1; }
  std::unique_ptr<Work> start(const Plan& plan, std::span<Entry> entries) override;
  bool rings_doorbell() const override { return true; }

 private:
  Memory memory_;
};

}  // namespace rueda
