// SPDX-License-Identifier: Apache-2.0
// The first part of every Work by NCCL.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/engine/backend.h"
#include "ops/nccl/member_exchange.h"
#include "ops/nccl/nccl_state.h"

namespace rueda {

// The state that such Works share; all of it outlives them.
struct NcclContext {
  LinkBackend& link;
  NcclState& state;
  DeviceSides& sides;
  Backend& staged;
};

// Purpose: a Plan of a group's: the first one connects its members, the others wait for that; where NCCL
// cannot connect them all go by the host. Then the derived Work carries it out.
class NcclGroupWork : public Work {
 public:
  NcclGroupWork(const Plan& plan, std::span<Entry> entries, NcclContext context, NcclGroup& group);
  NcclGroupWork(const NcclGroupWork&) = delete;
  NcclGroupWork& operator=(const NcclGroupWork&) = delete;
  ~NcclGroupWork() override;

  Step step() final;
  void abandon() final;
  std::string_view phase() const final;
  PlanRoute route() const final;

 protected:
  virtual Step carry_out() = 0;
  virtual void abandon_own() {}
  virtual std::string_view own_phase() const = 0;
  virtual PlanRoute own_route() const = 0;

  DeviceSide& side() { return context_.sides.at(group_.device()); }
  Entry& entry() const { return entries_.front(); }
  NcclEnd own_end();
  // Throws BackendError where a tensor is on another device than the group's.
  void check_device(const Entry& each) const;
  // On the device, with those values of the host, if there are any; until `finish`. Throws WorkFailure.
  std::byte* temporary(const ConstTensorView& values, std::size_t bytes);
  // All that the device was given is behind the entries' fence.
  void finish();

  const Plan& plan_;
  std::span<Entry> entries_;
  NcclContext context_;
  NcclGroup& group_;
  bool abandoned_ = false;

  // Of an operation in a graph: nothing has been carried out, so it can be taken back.
  bool is_captured() const { return plan_.capture != 0 && plan_.operation != Operation::barrier; }

 private:
  Step carry_out_captured();
  Step connect();
  Step go_by_the_host();
  std::optional<int> device_here() const;

  bool connected_ = false;
  bool by_the_host_ = false;
  bool leads_ = false;  // it is this Work that connects the group
  std::optional<MemberExchange> introductions_;
  std::unique_ptr<Work> staged_;
  // Memory in place of a joined rank's tensor, or of memory that NCCL must not see. The values of a joined
  // rank come from the host by way of pinned memory.
  struct Temporary {
    BlockPool::Block pinned;
    BlockPool::Block device;
  };
  std::vector<Temporary> temporaries_;
};

}  // namespace rueda
