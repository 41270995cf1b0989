// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/elastic/module_part.h"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <utility>

#include "rueda/torch/state/parameters.h"
#include "rueda/torch/state/stateful.h"

namespace rueda::elastic {
namespace {

constexpr std::int64_t kSmallBuffer = 1 << 16;  // elements; a larger one is copied only after a change

}  // namespace

std::string ModulePart::describe() const { return Stateful(module_).describe(); }

ModulePart::Copy ModulePart::copy_of(const at::Tensor& tensor) {
  return {tensor, tensor._version(), tensor.detach().clone()};
}

void ModulePart::save() {
  parameters_ = module_.parameters();
  buffers_ = module_.buffers();
  noted_.reset();
  copies_.clear();
  for (const at::Tensor& parameter : parameters_) copies_.push_back(copy_of(parameter));
  for (const at::Tensor& buffer : buffers_) copies_.push_back(copy_of(buffer));
}

ModulePart::Copy ModulePart::copy_or_former(const at::Tensor& buffer, std::vector<Copy>& former) const {
  if (buffer.numel() < kSmallBuffer) return copy_of(buffer);
  const auto found =
      std::ranges::find_if(former, [&](const Copy& each) { return each.tensor.is_same(buffer); });
  if (found == former.end() || found->version != buffer._version()) return copy_of(buffer);
  return std::move(*found);
}

void ModulePart::note() {
  noted_.emplace();
  for (const at::Tensor& parameter : parameters_) noted_->note(parameter);
  std::vector<Copy> former = std::exchange(copies_, {});
  for (const at::Tensor& buffer : buffers_) copies_.push_back(copy_or_former(buffer, former));
}

void ModulePart::restore() {
  const at::NoGradGuard no_grad;
  for (Copy& each : copies_) {
    each.tensor.copy_(each.value);
    each.version = each.tensor._version();
  }
}

void ModulePart::sync(Rank root, const Scope& scope) { broadcast_parameters(module_, root, scope); }

}  // namespace rueda::elastic
