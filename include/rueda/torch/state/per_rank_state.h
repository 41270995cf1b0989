// SPDX-License-Identifier: Apache-2.0
// Marks objects that differ between ranks.
#pragma once

namespace rueda {

// Purpose: the base of an optimizer whose state differs between ranks. Stateful refuses it, since one rank
// cannot save, load or broadcast it for all.
class PerRankState {
 public:
  virtual ~PerRankState() = default;
};

}  // namespace rueda
