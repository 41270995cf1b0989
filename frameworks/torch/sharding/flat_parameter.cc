// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/sharding/flat_parameter.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "frameworks/torch/collectives/tensor_adapter.h"

namespace rueda {
namespace {

constexpr std::int64_t up_to_grain(std::int64_t elements) {
  return (elements + FlatParameter::kGrain - 1) / FlatParameter::kGrain * FlatParameter::kGrain;
}

}  // namespace

FlatParameter::FlatParameter(std::string name, std::vector<Parameter> parameters, std::int64_t least_part,
                             const Division& division)
    : name_(std::move(name)), parameters_(std::move(parameters)), division_(division) {
  std::int64_t elements = 0;
  for (Parameter& parameter : parameters_) {
    options_ = at::TensorOptions(parameter.tensor.scalar_type()).device(parameter.tensor.device());
    parameter.offset = elements;
    elements += up_to_grain(parameter.tensor.numel());
  }
  for (Rank before = 0; before <= division.copies; ++before)
    parts_.push_back({.number = (division.rank + division.ranks - before) % division.ranks});
  const std::int64_t size = division.ranks;
  part_elements_ = up_to_grain(std::max((elements + size - 1) / size, least_part));
  flat_elements_ = part_elements_ * size;
}

std::size_t FlatParameter::flat_bytes() const {
  return static_cast<std::size_t>(flat_elements_) * options_.dtype().itemsize();
}

at::Tensor FlatParameter::view_in(const at::Tensor& flat, const Parameter& parameter) {
  return flat.as_strided(parameter.tensor.sizes(), parameter.tensor.strides(),
                         flat.storage_offset() + parameter.offset);
}

void FlatParameter::fill(const at::Tensor& flat) const {
  flat.zero_();
  for (const Parameter& parameter : parameters_) view_in(flat, parameter).copy_(parameter.tensor.detach());
}

// A storage of no memory, which says why.
void FlatParameter::prepare_absence() {
  const at::Tensor flat = at::empty({flat_elements_}, options_);
  for (Parameter& parameter : parameters_) parameter.absent = view_in(flat, parameter);
  flat.storage().set_data_ptr_noswap(no_memory());
  flat.storage().unsafeGetStorageImpl()->release_data_and_set_meta_custom_data_ptr_error_msg_(fmt::format(
      "rank {}: the parameters of the unit '{}' of a ShardedModel are gathered only while it runs, by "
      "ShardedModel::run() and its UnitRunner; state_dict() has them all",
      division_.rank, name_));
}

// The module's parameters, and this rank's pieces, become views.
void FlatParameter::adopt(const at::Tensor& flat) {
  storage_ = flat.storage();
  for (Parameter& parameter : parameters_) {
    parameter.here = view_in(flat, parameter);
    parameter.tensor.set_data(parameter.here);
  }
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    const std::int64_t first = part_elements_ * parts_[part].number, last = first + part_elements_;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const Parameter& parameter = parameters_[i];
      const std::int64_t begin = std::max(first - parameter.offset, std::int64_t{0});
      const std::int64_t end = std::min(last - parameter.offset, parameter.tensor.numel());
      if (begin >= end) continue;
      const std::int64_t offset = parameter.offset + begin - first;
      pieces_.push_back({part, i, begin, end, parts_[part].values.narrow(0, offset, end - begin).detach()});
    }
  }
}

void FlatParameter::make_resident(std::shared_ptr<std::byte> memory, bool write) {
  const at::NoGradGuard no_grad;
  std::byte* const data = memory.get();
  const at::Tensor flat = data == nullptr
                              ? at::empty({flat_elements_}, options_)
                              : at::from_blob(
                                    data, {flat_elements_}, [memory = std::move(memory)](void*) {}, options_);
  if (write) fill(flat);
  resident_ = true;
  for (Part& part : parts_) {
    const at::Tensor view = flat.narrow(0, part_elements_ * part.number, part_elements_);
    const bool beside = part.number != division_.rank;
    part.values = beside ? at::empty_like(view) : view;
    if (beside) part.original = view;
  }
  adopt(flat);
}

void FlatParameter::make_parts(const std::string& name, Runtime& runtime) {
  const at::NoGradGuard no_grad;
  at::Tensor flat = at::empty({flat_elements_}, options_);
  if (division_.rank == 0) fill(flat);
  broadcast_(flat, 0, name, runtime);
  for (Part& part : parts_)
    part.values = flat.narrow(0, part_elements_ * part.number, part_elements_).clone();
  adopt(flat);
  prepare_absence();
  release();
}

void FlatParameter::make_room() {
  const at::NoGradGuard no_grad;
  for (Part& part : parts_) part.values = at::zeros({part_elements_}, options_);
  adopt(at::empty({flat_elements_}, options_));
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
  gathering_ = allgather_async(parts_.front().values.view({1, part_elements_}), name, runtime);
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
    const at::Tensor view = view_in(flat, parameter);
    if (gradient.defined()) {
      view.copy_(gradient.layout() == at::kStrided ? gradient : gradient.to_dense());
    } else {
      view.zero_();
    }
    filled = parameter.offset + parameter.tensor.numel();
  }
  flat.narrow(0, filled, flat_elements_ - filled).zero_();
  return flat;
}

void FlatParameter::add_gradient(at::Tensor part) {
  const at::NoGradGuard no_grad;
  if (parts_.front().gradient.defined()) {
    parts_.front().gradient.add_(part);
  } else {
    parts_.front().gradient = std::move(part);
  }
}

at::Tensor FlatParameter::gradient_of(const Piece& piece) const {
  const Part& part = parts_[piece.part];
  const std::int64_t offset =
      parameters_[piece.parameter].offset + piece.begin - part_elements_ * part.number;
  return part.gradient.narrow(0, offset, piece.end - piece.begin).detach();
}

void FlatParameter::show_gradient(std::size_t index) {
  const at::NoGradGuard no_grad;
  parameters_[index].has_gradient = true;
  for (Piece& piece : pieces_) {
    if (piece.part == 0 && piece.parameter == index && !piece.leaf.grad().defined())
      piece.leaf.mutable_grad() = gradient_of(piece);
  }
}

void FlatParameter::scale_gradient(const at::Scalar& factor) {
  if (parts_.front().gradient.defined()) parts_.front().gradient.mul_(factor);
}

void FlatParameter::scale_gradient(const at::Tensor& factor) {
  if (parts_.front().gradient.defined()) parts_.front().gradient.mul_(factor);
}

at::Tensor FlatParameter::gradient_square() const {
  const at::Tensor& gradient = parts_.front().gradient;
  return gradient.defined() ? gradient.to(at::kDouble).square().sum().unsqueeze(0) : at::Tensor();
}

void FlatParameter::forget_gradients() {
  for (Piece& piece : pieces_) piece.leaf.mutable_grad().reset();
  for (Part& part : parts_) part.gradient.reset();
  for (Parameter& parameter : parameters_) parameter.has_gradient = false;
}

std::optional<std::size_t> FlatParameter::replaced_gradient() const {
  for (const Piece& piece : pieces_) {
    if (piece.part != 0) continue;
    const at::Tensor& now = piece.leaf.grad();
    const bool has = parameters_[piece.parameter].has_gradient && parts_.front().gradient.defined();
    if (now.defined() != has || (has && now.const_data_ptr() != gradient_of(piece).const_data_ptr()))
      return piece.parameter;
  }
  return std::nullopt;
}

void FlatParameter::renew_copies() {
  const at::NoGradGuard no_grad;
  for (Part& part : parts_) {
    if (part.original.defined()) part.values.copy_(part.original);
  }
}

// Nothing is sent where there is no gradient, but every rank takes part.
void FlatParameter::begin_to_copy_gradients(const std::string& name, Runtime& runtime) {
  const at::NoGradGuard no_grad;
  const at::Tensor& gradient = parts_.front().gradient;
  const std::int64_t rows = gradient.defined() ? part_elements_ : 0;
  std::vector<std::int64_t> splits(static_cast<std::size_t>(division_.ranks));
  for (Rank after = 1; after <= division_.copies; ++after)
    splits[static_cast<std::size_t>((division_.rank + after) % division_.ranks)] = rows;
  const at::Tensor once = gradient.defined() ? gradient : at::empty({0}, options_);
  copying_ = alltoall_async(division_.copies == 1 ? once : once.repeat({division_.copies}), std::move(splits),
                            name, runtime);
}

void FlatParameter::end_to_copy_gradients() {
  const at::NoGradGuard no_grad;
  TensorHandle copying = *std::exchange(copying_, std::nullopt);
  const at::Tensor received = copying.wait();
  std::int64_t begin = 0;
  std::map<Rank, std::pair<std::int64_t, std::int64_t>> rows_of;  // where they begin, and their number
  for (Rank from = 0; from < division_.ranks; ++from) {
    const std::int64_t rows = copying.received_splits()[static_cast<std::size_t>(from)];
    rows_of[from] = {begin, rows};
    begin += rows;
  }
  for (std::size_t i = 1; i < parts_.size(); ++i) {
    const auto [first, rows] = rows_of[parts_[i].number];
    parts_[i].gradient = rows == 0 ? at::Tensor() : received.narrow(0, first, rows);
  }
  for (Piece& piece : pieces_) {
    if (piece.part == 0) continue;
    const bool has = parameters_[piece.parameter].has_gradient && parts_[piece.part].gradient.defined();
    piece.leaf.mutable_grad() = has ? gradient_of(piece) : at::Tensor();
  }
}

void FlatParameter::forget_copied_gradients() {
  for (Piece& piece : pieces_) {
    if (piece.part != 0) piece.leaf.mutable_grad().reset();
  }
  for (std::size_t i = 1; i < parts_.size(); ++i) parts_[i].gradient.reset();
}

}  // namespace rueda
