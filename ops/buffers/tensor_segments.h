// SPDX-License-Identifier: Apache-2.0
// The tensors of a Plan cut into equal shares, one for each rank.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/control/messages/plan.h"

namespace rueda {

// Purpose: walks through one rank's share, its parts of all tensors in their order. A plain value; refers to
// its Plan.
class TensorSegments {
 public:
  TensorSegments(const Plan& plan, Rank index, Rank size) : plan_(&plan), index_(index), size_(size) {}

  struct Part {
    std::size_t tensor = 0;
    std::int64_t begin = 0;  // element of the tensor
    std::int64_t count = 0;
  };
  // The whole part of a tensor: as near to one size-th of it as elements allow.
  static Part part(const Plan& plan, std::size_t tensor, Rank index, Rank size);
  // Elements of the share.
  std::int64_t elements() const;

  // The next piece of the share, of at most `most` elements; of a whole share that has been walked through,
  // none.
  Part next(std::int64_t most);

 private:
  const Plan* plan_;
  Rank index_;
  Rank size_;
  std::size_t tensor_ = 0;
  std::int64_t done_ = 0;  // elements of this tensor's part
};

}  // namespace rueda
