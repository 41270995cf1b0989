// SPDX-License-Identifier: Apache-2.0
// Slots of tensors that all members of a group have in windows.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/bytes.h"
#include "core/control/messages/plan.h"
#include "rueda/device_window.h"
#include "rueda/fence.h"
#include "rueda/rank_set.h"

namespace rueda {

// Purpose: which tensor has its slot where, the same on all members of a group: so each knows without asking
// that an operation goes there everywhere. NCCL leaves it undefined what happens where some members pass
// memory that it knows and others do not. Owned by an NcclGroup, used by the background thread.
class NcclWindows {
 public:
  struct Spot {
    std::size_t window = 0;
    std::size_t offset = 0;
    std::size_t bytes = 0;
    std::shared_ptr<const Fence> used;  // behind what has last worked there; null: nothing has
  };
  // The members' verdict on the windows that they are about to share.
  struct Verdict {
    bool shared = false;            // all brought one
    bool registered = false;        // NCCL can know it on all of them
    std::string difference;         // why it cannot be, in words that fit after "rank 1: "; empty if it can
    std::vector<std::size_t> gone;  // windows that nobody has any use for, ascending
  };

  // A member's message; `known`: whether NCCL can know its memory. `window` is null if the member brings
  // none. The message also tells which shared windows are in use here.
  Bytes words(const DeviceWindow* window, bool known) const;
  Verdict compare(Reader all, const RankSet& members) const;

  void add(std::shared_ptr<const DeviceWindow> window, bool registered);
  // As they were added. One that goes makes way for those behind it.
  const DeviceWindow& shared(std::size_t window) const { return *windows_[window].shared; }
  bool registered(std::size_t window) const { return windows_[window].registered; }
  void remove(std::size_t window);
  // Null where a tensor of that name and size has none.
  const Spot* find(const std::string& name, std::size_t bytes) const;
  // Holds back the next work on `stream` until all earlier work in these tensors' slots is over, on whichever
  // stream it was. used(): all work that has been given is behind `fence`.
  void hold_back(DeviceStream stream, std::span<const PlanTensor> tensors) const;
  void used(std::span<const PlanTensor> tensors, const std::shared_ptr<const Fence>& fence);
  std::byte* at(const Spot& spot) const { return windows_[spot.window].shared->memory.get() + spot.offset; }
  // Whether NCCL knows what lies there.
  bool registered_at(const void* memory) const;

 private:
  struct Window {
    std::shared_ptr<const DeviceWindow> shared;
    bool registered = false;

    bool in_use() const { return shared.use_count() > 1 || shared->memory.use_count() > 1; }
  };
  std::vector<Window> windows_;
  std::map<std::string, Spot> spots_;
};

}  // namespace rueda
