// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/backward_passes.h"

namespace rueda {

void BackwardPasses::end(int pass, bool inside_another) {
  const bool noted = running_.erase(pass) != 0;  // since reset()
  if (inside_another) {
    unheard_ |= noted && running_.empty();
    return;
  }
  if (noted) ++ended_;
  unheard_ = false;
}

}  // namespace rueda
