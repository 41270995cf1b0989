// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/buffers/gradient_buffers.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/ScalarOps.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "core/base/log.h"
#include "frameworks/torch/buffers/pairwise_sum.h"

namespace rueda {
namespace {

// to = from * factor; the two may be one. 16-bit values in float32: torch would round the factor to their
// type.
void write_times(const at::Tensor& to, const at::Tensor& from, double factor) {
  if (factor == 1.0) {
    if (!to.is_same(from)) to.copy_(from);
  } else if (from.element_size() == 2) {
    to.copy_(from.to(at::kFloat).mul_(factor));
  } else {
    at::Tensor result = to;
    at::mul_out(result, from, at::native::wrapped_scalar_tensor(factor));
  }
}

// Where a rank is alone on its host there is nobody to reduce in place with.
bool has_neighbours(const Runtime& runtime) {
  return runtime.tensor_memory() && runtime.topology().local_size > 1;
}

}  // namespace

at::Tensor reducible(const at::Tensor& gradient) {
  if (gradient.layout() == at::kSparse) return gradient.coalesce().to_dense();
  if (gradient.layout() != at::kStrided) return gradient.to_dense();
  if (at::has_internal_overlap(gradient) == at::MemOverlap::Yes) return gradient.contiguous();
  return gradient;
}

GradientBuffers::GradientBuffers(const std::string& name, std::vector<at::Tensor> parameters,
                                 std::vector<Names> banks, bool sums, const ScopeReference& scope)
    : name_(name + "/places"),
      parameters_(std::move(parameters)),
      names_(std::move(banks)),
      sums_(sums),
      scope_(scope),
      asked_(parameters_.size()) {
  for (const at::Tensor& parameter : parameters_) types_.push_back(type_of(parameter));
}

void GradientBuffers::end_step() {
  const Scope scope = scope_.get();
  Runtime& runtime = scope.runtime();
  order_.clear();
  const std::vector<std::size_t> lacking = std::exchange(lacking_, {});
  if (memory_ != runtime.tensor_memory() || sizes_ != sizes()) return get_blocks(runtime);
  if (!blocks_) return;
  std::size_t bytes = blocks_->bytes();
  std::vector<std::size_t> sizes;  // of those that may be added
  for (const std::size_t each : lacking) {
    if (bytes + each > most_) continue;
    sizes.push_back(each);
    bytes += each;
  }
  if (!sizes.empty() && !add(sizes, runtime.topology().rank)) most_ = blocks_->bytes();
}

at::ScalarType GradientBuffers::type_of(const at::Tensor& parameter) const {
  return sums_ ? sum_type(parameter.scalar_type()) : parameter.scalar_type();
}

std::size_t GradientBuffers::bytes_of(std::size_t index, at::ScalarType type) const {
  return static_cast<std::size_t>(parameters_[index].numel()) * c10::elementSize(type);
}

// Bytes of each gradient, for those in the host's memory.
std::vector<std::size_t> GradientBuffers::sizes() const {
  std::vector<std::size_t> sizes;
  for (std::size_t index = 0; index < parameters_.size(); ++index) {
    if (!parameters_[index].is_cuda()) sizes.push_back(bytes_of(index, type_of(parameters_[index])));
  }
  return sizes;
}

void GradientBuffers::get_blocks(Runtime& runtime) {
  memory_ = runtime.tensor_memory();
  sizes_ = sizes();
  blocks_ = nullptr;
  if (!has_neighbours(runtime)) return;
  blocks_ = std::make_shared<GradientAllocator>(memory_);
  for (std::size_t bank = 0; blocks_ && bank < names_.size(); ++bank) {
    if (!add(sizes_, runtime.topology().rank)) blocks_ = nullptr;
  }
  most_ = blocks_ ? 2 * blocks_->bytes() : 0;
  begin_pass();  // who steps mostly runs the passes, too
}

bool GradientBuffers::add(const std::vector<std::size_t>& sizes, Rank rank) {
  try {
    if (blocks_->add(sizes)) return true;
    log(LogLevel::warning,
        "rank {}: not all gradients are reduced in place: the window has no room for {} bytes more. Raise "
        "RUEDA_WINDOW_LIMIT, or leave it unset.",
        rank, std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}));
    return false;
  } catch (const Error& error) {
    log(LogLevel::warning, "rank {}: not all gradients are reduced in place. {}", rank, error.what());
    return false;
  }
}

// Uninitialised; undefined where no block is free.
at::Tensor GradientBuffers::in_a_block(std::size_t index, at::ScalarType type) {
  const at::Tensor& parameter = parameters_[index];
  const std::size_t bytes = static_cast<std::size_t>(parameter.numel()) * c10::elementSize(type);
  if (!blocks_ || bytes == 0) return {};
  void* const block = blocks_->take(bytes);
  if (block == nullptr) {
    lacking_.push_back(bytes);
    return {};
  }
  const at::TensorOptions options(type);
  return parameter.is_non_overlapping_and_dense()
             ? at::from_blob(block, parameter.sizes(), parameter.strides(), GradientAllocator::give_back,
                             options)
             : at::from_blob(block, parameter.sizes(), GradientAllocator::give_back, options);
}

void GradientBuffers::note_result(std::size_t bank, std::size_t index, const at::Tensor& gradient,
                                  bool takes_window) {
  const bool fits = !takes_window || names_[bank][index].empty() || gradient.nbytes() == asked_[index];
  if (!fits) wanted_on_ = gradient.device();
}

void GradientBuffers::note_results() {
  if (places_) places_->note_reader(true);
  if (wanted_on_) wanted_ = order_;
}

void GradientBuffers::note_reader() {
  if (places_) places_->note_reader(false);
}

// What the first rank lays out: numbers of parameters in the order of their places, and bytes; -1 behind the
// last. Those of one type lie together, since they are reduced together; those that had places and have not
// come in this step come last. What comes sparse, or never, has none.
std::vector<std::int64_t> GradientBuffers::layout(const at::Device& device) const {
  std::vector<std::size_t> all = wanted_;
  for (std::size_t index = 0; index < parameters_.size(); ++index) {
    if (asked_[index] > 0) all.push_back(index);
  }
  std::ranges::stable_sort(all, {}, [&](std::size_t index) { return types_[index]; });
  std::vector<std::int64_t> layout;
  std::vector<bool> placed(parameters_.size());
  for (const std::size_t index : all) {
    const std::size_t bytes = bytes_of(index, types_[index]);
    const bool has_none = names_.front()[index].empty() || bytes == 0;
    if (placed[index] || has_none || parameters_[index].device() != device) continue;
    placed[index] = true;
    layout.insert(layout.end(), {static_cast<std::int64_t>(index), static_cast<std::int64_t>(bytes)});
  }
  layout.resize(2 * parameters_.size(), -1);
  return layout;
}

void GradientBuffers::share_places() {
  if (!wanted_on_) return;
  const Scope scope = scope_.get();
  if (scope.runtime().captures().capturing(scope.process_set())) return;
  try {
    get_places(*std::exchange(wanted_on_, std::nullopt), scope);
  } catch (const Error& error) {
    if (error.code() != StatusCode::invalid_argument) throw;
    log(LogLevel::info, "gradients get no places on devices yet: {}", error.what());
  }
}

void GradientBuffers::get_places(const at::Device& device, const Scope& scope) {
  std::vector<std::int64_t> layout = this->layout(device);
  broadcast_async(name_, view(layout), view(layout), scope.rank_at(0), scope).wait();
  std::vector<DeviceSlots::Wanted> wanted;
  std::ranges::fill(asked_, 0);
  for (std::size_t bank = 0; bank < names_.size(); ++bank) {
    for (std::size_t i = 0; i < layout.size() && layout[i] >= 0; i += 2) {
      const auto index = static_cast<std::size_t>(layout[i]), bytes = static_cast<std::size_t>(layout[i + 1]);
      wanted.push_back({bank, index, names_[bank][index], bytes});
      asked_[index] = bytes;
    }
  }
  places_ = nullptr;  // before there are others
  places_ = DeviceSlots::share(wanted, device, scope);
  had_places_ |= places_ != nullptr;
  note_reader();
}

// Uninitialised; undefined where it is not free, or there is none.
at::Tensor GradientBuffers::in_its_place(std::size_t bank, std::size_t index, at::ScalarType type) {
  if (!places_) return {};
  const Scope scope = scope_.get();
  if (scope.runtime().captures().capturing(scope.process_set())) return {};
  return places_->take(bank, index, parameters_[index].sizes(), type);
}

at::Tensor GradientBuffers::place(std::size_t bank, std::size_t index, const at::Tensor& gradient,
                                  double factor, std::size_t holders, bool kept) {
  const bool on_device = gradient.is_cuda();
  if (on_device) note(index, gradient.scalar_type());
  const bool there = on_device ? places_ && places_->contains(bank, index, gradient)
                               : blocks_ && memory_->contains(gradient.const_data_ptr(), gradient.nbytes());
  const bool alone = gradient.storage().use_count() <= holders;
  const bool moves = !(kept && !alone) && !(there && alone);
  if (moves && !gradient.requires_grad() && gradient.sizes() == parameters_[index].sizes()) {
    at::Tensor place = on_device ? in_its_place(bank, index, gradient.scalar_type())
                                 : in_a_block(index, gradient.scalar_type());
    if (place.defined()) {
      write_times(place, gradient, factor);
      return place;
    }
  }
  at::Tensor own = alone || kept || gradient.requires_grad() ? gradient : gradient.clone();
  if (on_device) own = own.contiguous();
  write_times(own, own, factor);
  return own;
}

// What has no place any more may have one in an older window, where somebody may hold what is there.
GradientPlacement GradientBuffers::placement(std::size_t bank, std::size_t index,
                                             const at::Tensor& gradient) const {
  if (!had_places_ || !gradient.is_cuda()) return GradientPlacement::none;
  const bool there = places_ && places_->contains(bank, index, gradient);
  return there ? GradientPlacement::in_slot : GradientPlacement::elsewhere;
}

void GradientBuffers::abandon_blocks() {
  blocks_ = nullptr;
  memory_ = nullptr;
  lacking_.clear();
  order_.clear();
  wanted_on_.reset();
}

void GradientBuffers::begin_job() {
  abandon_blocks();
  places_ = nullptr;
  had_places_ = false;
  std::ranges::fill(asked_, 0);
}

// On a device.
void GradientBuffers::note(std::size_t index, at::ScalarType type) {
  order_.push_back(index);
  types_[index] = type;
}

at::Tensor GradientBuffers::zeros(std::size_t bank, std::size_t index) {
  const at::Tensor& parameter = parameters_[index];
  const at::ScalarType type = type_of(parameter);
  if (parameter.is_cuda()) note(index, type);
  at::Tensor place = parameter.is_cuda() ? in_its_place(bank, index, type) : in_a_block(index, type);
  if (place.defined()) return place.zero_();
  const at::TensorOptions options = parameter.options().dtype(type);
  return parameter.is_cuda() ? at::zeros(parameter.sizes(), options) : at::zeros_like(parameter, options);
}

}  // namespace rueda
