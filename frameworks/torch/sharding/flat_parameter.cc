// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/sharding/flat_parameter.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "frameworks/torch/collectives/tensor_adapter.h"

namespace rueda {
namespace {

constexpr std::int64_t up_to_grain(std::int64_t elements) {
  return (elements + FlatParameter::kGrain - 1) / FlatParameter::kGrain * FlatParameter::kGrain;
}

}  // namespace

FlatParameter::FlatParameter(std::string name, std::vector<Parameter> parameters, std::int64_t least_part,
                             const Topology& topology)
    : name_(std::move(name)), parameters_(std::move(parameters)), rank_(topology.rank) {
  std::int64_t elements = 0;
  for (Parameter& parameter : parameters_) {
    options_ = at::TensorOptions(parameter.tensor.scalar_type()).device(parameter.tensor.device());
    parameter.offset = elements;
    elements += up_to_grain(parameter.tensor.numel());
  }
  const std::int64_t size = topology.size;
  part_elements_ = up_to_grain(std::max((elements + size - 1) / size, least_part));
  flat_elements_ = part_elements_ * size;
}

std::size_t FlatParameter::flat_bytes() const {
  return static_cast<std::size_t>(flat_elements_) * options_.dtype().itemsize();
}

at::Tensor FlatParameter::place_in(const at::Tensor& flat, const Parameter& parameter) {
  return flat.as_strided(parameter.tensor.sizes(), parameter.tensor.strides(),
                         flat.storage_offset() + parameter.offset);
}

void FlatParameter::fill(const at::Tensor& flat) const {
  flat.zero_();
  for (const Parameter& parameter : parameters_) place_in(flat, parameter).copy_(parameter.tensor.detach());
}

// A storage of no memory, which says why.
void FlatParameter::prepare_absence() {
  const at::Tensor flat = at::empty({flat_elements_}, options_);
  for (Parameter& parameter : parameters_) parameter.absent = place_in(flat, parameter);
  flat.storage().set_data_ptr_noswap(no_memory());
  flat.storage().unsafeGetStorageImpl()->release_data_and_set_meta_custom_data_ptr_error_msg_(fmt::format(
      "rank {}: the parameters of the unit '{}' of a ShardedModel are gathered only while it runs, by "
      "ShardedModel::run() and its UnitRunner; state_dict() has them all",
      rank_, name_));
}

// The module's parameters, and this rank's pieces, become views.
void FlatParameter::adopt(const at::Tensor& flat) {
  storage_ = flat.storage();
  const std::int64_t first = part_elements_ * rank_, last = first + part_elements_;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    Parameter& parameter = parameters_[i];
    parameter.here = place_in(flat, parameter);
    parameter.tensor.set_data(parameter.here);
    const std::int64_t begin = std::max(first - parameter.offset, std::int64_t{0});
    const std::int64_t end = std::min(last - parameter.offset, parameter.tensor.numel());
    if (begin >= end) continue;
    const std::int64_t place = parameter.offset + begin - first;
    pieces_.push_back({i, begin, end, part_.narrow(0, place, end - begin).detach()});
  }
}

void FlatParameter::make_resident(std::shared_ptr<std::byte> memory, bool write) {
  const at::NoGradGuard no_grad;
  std::byte* const place = memory.get();
  const at::Tensor flat =
      place == nullptr ? at::empty({flat_elements_}, options_)
                       : at::from_blob(
                             place, {flat_elements_}, [memory = std::move(memory)](void*) {}, options_);
  if (write) fill(flat);
  resident_ = true;
  part_ = flat.narrow(0, part_elements_ * rank_, part_elements_);
  adopt(flat);
}

void FlatParameter::make_parts(const std::string& name, Runtime& runtime) {
  const at::NoGradGuard no_grad;
  at::Tensor flat = at::empty({flat_elements_}, options_);
  if (rank_ == 0) fill(flat);
  broadcast_(flat, 0, name, runtime);
  part_ = flat.narrow(0, part_elements_ * rank_, part_elements_).clone();
  adopt(flat);
  prepare_absence();
  release();
}

void FlatParameter::leave() {
  const at::NoGradGuard no_grad;
  if (!resident_ || moved_parameter()) return;
  for (Parameter& parameter : parameters_) parameter.tensor.set_data(parameter.tensor.detach().clone());
}

void FlatParameter::begin_gather(const std::string& name, Runtime& runtime) {
  // A row of its own length: ranks that gather different units at a time are told so.
  gathering_ = allgather_async(part_.view({1, part_elements_}), name, runtime);
}

void FlatParameter::end_gather() {
  const at::Tensor whole = std::exchange(gathering_, std::nullopt)->wait();
  storage_.set_data_ptr_noswap(whole.storage().set_data_ptr(no_memory()));
  for (Parameter& parameter : parameters_) parameter.tensor.set_data(parameter.here);
}

void FlatParameter::note_use() const { keep_for_current_stream(storage_); }

void FlatParameter::release() {
  if (resident_ || !present()) return;
  storage_.set_data_ptr_noswap(no_memory());
  for (Parameter& parameter : parameters_) parameter.tensor.set_data(parameter.absent);
}

std::optional<std::size_t> FlatParameter::moved_parameter() const {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Parameter& parameter = parameters_[i];
    const at::Tensor& expected = present() ? parameter.here : parameter.absent;
    if (parameter.tensor.storage().unsafeGetStorageImpl() != expected.storage().unsafeGetStorageImpl())
      return i;
  }
  return std::nullopt;
}

at::Tensor FlatParameter::take_gradients() {
  const at::NoGradGuard no_grad;
  at::Tensor flat = at::empty({flat_elements_}, options_);
  std::int64_t filled = 0;
  for (Parameter& parameter : parameters_) {
    flat.narrow(0, filled, parameter.offset - filled).zero_();
    const at::Tensor gradient = std::exchange(parameter.tensor.mutable_grad(), at::Tensor());
    const at::Tensor place = place_in(flat, parameter);
    if (gradient.defined()) {
      place.copy_(gradient.layout() == at::kStrided ? gradient : gradient.to_dense());
    } else {
      place.zero_();
    }
    filled = parameter.offset + parameter.tensor.numel();
  }
  flat.narrow(0, filled, flat_elements_ - filled).zero_();
  return flat;
}

void FlatParameter::add_gradient(at::Tensor part) {
  const at::NoGradGuard no_grad;
  if (gradient_.defined()) {
    gradient_.add_(part);
  } else {
    gradient_ = std::move(part);
  }
}

void FlatParameter::show_gradient(std::size_t index) {
  const at::NoGradGuard no_grad;
  const std::int64_t first = part_elements_ * rank_;
  for (Piece& piece : pieces_) {
    if (piece.parameter != index || piece.leaf.grad().defined()) continue;
    const std::int64_t place = parameters_[index].offset + piece.begin - first;
    piece.leaf.mutable_grad() = gradient_.narrow(0, place, piece.end - piece.begin).detach();
  }
}

void FlatParameter::scale_gradient(const at::Scalar& factor) {
  if (gradient_.defined()) gradient_.mul_(factor);
}

void FlatParameter::scale_gradient(const at::Tensor& factor) {
  if (gradient_.defined()) gradient_.mul_(factor);
}

at::Tensor FlatParameter::gradient_square() const {
  return gradient_.defined() ? gradient_.to(at::kDouble).square().sum().unsqueeze(0) : at::Tensor();
}

void FlatParameter::forget_gradients() {
  for (Piece& piece : pieces_) piece.leaf.mutable_grad().reset();
  gradient_.reset();
}

}  // namespace rueda
