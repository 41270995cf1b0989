// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/reducer/pass_counter.h"

#include <algorithm>

namespace rueda {

std::shared_ptr<const void> PassCounter::note(int pass) {
  const auto [entry, is_new] = begun_.try_emplace(pass);
  if (!is_new) return nullptr;
  std::shared_ptr<const void> token = std::make_shared<char>();
  entry->second = token;
  return token;
}

void PassCounter::end(int pass, bool inside_another) {
  const bool noted = begun_.erase(pass) != 0;  // since reset()
  if (inside_another) {
    unheard_ |= noted && !running();
    return;
  }
  if (noted) ++ended_;
  unheard_ = false;
}

bool PassCounter::running_beside(int pass) const {
  return std::ranges::any_of(
      begun_, [pass](const auto& each) { return each.first != pass && !each.second.expired(); });
}

bool PassCounter::failed() const {
  return std::ranges::any_of(begun_, [](const auto& each) { return each.second.expired(); });
}

}  // namespace rueda
