// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/elastic/module_part.h"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <utility>

#include "frameworks/torch/reducer/generations.h"
#include "rueda/torch/state/parameters.h"
#include "rueda/torch/state/stateful.h"

namespace rueda::elastic {
namespace {

constexpr std::int64_t kSmallBuffer = 1 << 16;  // elements; a larger one is copied only after a change

auto find_copy(auto& copies, const at::Tensor& tensor) {
  return std::ranges::find_if(copies, [&](const auto& each) { return each.tensor.is_same(tensor); });
}

}  // namespace

std::string ModulePart::describe() const { return Stateful(module_).describe(); }

ModulePart::Copy ModulePart::copy_of(const at::Tensor& tensor) {
  return {tensor, tensor._version(), tensor.detach().clone()};
}

void ModulePart::list_tensors() {
  parameters_ = module_.parameters();
  std::erase_if(parameters_, [&](const at::Tensor& each) { return is_left_out(each); });
  buffers_ = module_.buffers();
}

// Before elastic::run() the other ranks may wait for this one. Its first sync() gives it their values, so a
// copy would be in vain.
void ModulePart::keep_first() {
  if (!Generations::of_process().ranks_come_alone()) return ModulePart::save();
  list_tensors();
  ModulePart::note();
}

void ModulePart::save() {
  list_tensors();
  noted_.reset();
  copies_.clear();
  for (const at::Tensor& parameter : parameters_) copies_.push_back(copy_of(parameter));
  for (const at::Tensor& buffer : buffers_) copies_.push_back(copy_of(buffer));
}

ModulePart::Copy ModulePart::copy_or_former(const at::Tensor& buffer, std::vector<Copy>& former) {
  if (buffer.numel() < kSmallBuffer) return copy_of(buffer);
  const auto found = find_copy(former, buffer);
  if (found == former.end() || found->version != buffer._version()) return copy_of(buffer);
  return std::move(*found);
}

// A frozen one needs no copy. An average of other parameters changes before each commit.
ModulePart::Copy ModulePart::copy_of_fixed(const at::Tensor& parameter, std::vector<Copy>& former) {
  const auto found = find_copy(former, parameter);
  const bool has_changed = found != former.end() && found->version != parameter._version();
  return has_changed ? copy_of(parameter) : Copy{parameter, parameter._version(), {}};
}

void ModulePart::note() {
  noted_.emplace();
  std::vector<Copy> former = std::exchange(copies_, {});
  for (const at::Tensor& parameter : parameters_) {
    if (parameter.requires_grad())
      noted_->note(parameter);
    else
      copies_.push_back(copy_of_fixed(parameter, former));
  }
  for (const at::Tensor& buffer : buffers_) copies_.push_back(copy_or_former(buffer, former));
}

bool ModulePart::is_ahead() const {
  const auto has_changed = [](const Copy& each) {
    return !each.value.defined() && each.version != each.tensor._version();
  };
  return noted_ && (noted_->changed() || std::ranges::any_of(copies_, has_changed));
}

// After note() a large tensor stays as it is if it has not changed, as far as versions tell.
void ModulePart::restore() {
  const at::NoGradGuard no_grad;
  for (Copy& each : copies_) {
    const bool is_large = noted_ && each.tensor.numel() >= kSmallBuffer;
    if (!each.value.defined() || (is_large && each.version == each.tensor._version())) continue;
    each.tensor.copy_(each.value);
    each.version = each.tensor._version();
  }
}

void ModulePart::sync(Rank root, const Scope& scope) {
  if (left_out_.empty()) return broadcast_parameters(module_, root, scope);
  std::vector<std::pair<std::string, at::Tensor>> named;
  for (const auto& each : module_.named_parameters()) {
    if (!is_left_out(each.value())) named.emplace_back(each.key(), each.value());
  }
  for (const auto& each : module_.named_buffers()) named.emplace_back(each.key(), each.value());
  broadcast_parameters(named, root, scope);
}

bool ModulePart::is_left_out(const at::Tensor& tensor) const {
  return std::ranges::any_of(left_out_, [&](const at::Tensor& each) { return each.is_same(tensor); });
}

void ModulePart::leave_out(const std::vector<at::Tensor>& owned) {
  left_out_.insert(left_out_.end(), owned.begin(), owned.end());
  keep_first();
}

}  // namespace rueda::elastic
