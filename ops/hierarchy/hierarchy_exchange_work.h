// SPDX-License-Identifier: Apache-2.0
// The common part of operations over several hosts that move one tensor.
#pragma once

#include <cstddef>
#include <vector>

#include "core/engine/submissions/entry.h"
#include "ops/buffers/contiguous_copy.h"
#include "ops/hierarchy/hierarchy_work.h"
#include "ops/hierarchy/regions.h"

namespace rueda {

// Purpose: one tensor in, one out. Owned by RunningWorks.
class HierarchyExchange : public HierarchyWork {
 public:
  HierarchyExchange(const Plan& plan, Entry& entry, const HostContext& context, Slices slices)
      : HierarchyWork(plan, context, slices), entry_(entry), input_(entry.submission().input, memory()) {
    for (std::size_t host = 0; host < this->host(); ++host) first_of_host_ += groups().hosts[host].size();
  }

 protected:
  bool prepare() override { return input_.advance(); }
  bool copy_back() override { return false; }

  std::byte* allocate(std::int64_t rows) {
    Shape shape = entry_.request().shape;
    shape.front() = rows;
    return static_cast<std::byte*>(allocate_output(entry_, shape).data);
  }
  // Of all members, host by host: the index of a member of this host.
  std::size_t number_of(std::size_t member) const { return first_of_host_ + member; }

  Entry& entry_;
  ContiguousInput input_;
  Regions regions_;
  std::size_t first_of_host_ = 0;  // this host's first member, of all
};

}  // namespace rueda
