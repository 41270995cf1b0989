// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/parameter_shards.h"

#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <torch/serialize/archive.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "core/base/log.h"
#include "frameworks/torch/agreement.h"
#include "frameworks/torch/tensor_adapter.h"

namespace rueda {
namespace {

constexpr std::int64_t kLine = 64;
constexpr const char* kArchived = "rueda_part";

[[noreturn]] void refuse(const std::string& words) { throw InvalidArgument(Status::invalid_argument(words)); }

TensorView bytes_at(std::byte* memory, std::int64_t bytes) { return {memory, DataType::uint8, {bytes}, {}}; }

// The elements in the order in which they lie in memory.
at::Tensor flat(const at::Tensor& tensor) { return tensor.as_strided({tensor.numel()}, {1}); }

// `gradient` with the memory order of its parameter.
at::Tensor like(const at::Tensor& parameter, const at::Tensor& gradient) {
  if (gradient.strides() == parameter.strides()) return gradient;
  return at::empty_strided(parameter.sizes(), parameter.strides(), gradient.options()).copy_(gradient);
}

Runtime* unless_default(Runtime& runtime) {
  return is_initialized() && &runtime == &default_runtime() ? nullptr : &runtime;
}

}  // namespace

ParameterShards::ParameterShards(const Groups& groups, Runtime& runtime) : runtime_(unless_default(runtime)) {
  const Rank rank = runtime.topology().rank;
  std::set<const void*> seen;
  std::vector<std::string> lines;
  for (const auto& group : groups) {
    lines.push_back(fmt::format("group of {} parameters", group.params().size()));
    for (const at::Tensor& parameter : group.params()) {
      if (!seen.insert(parameter.unsafeGetTensorImpl()).second) continue;
      const std::string name = fmt::format("parameter.{}", parameters_.size());
      const TensorView view = write_view(parameter, name);
      if (!parameter.is_non_overlapping_and_dense())
        refuse(fmt::format("rank {}: {} is part of another tensor; a ShardedOptimizer takes whole ones", rank,
                           name));
      lines.push_back(fmt::format("{} {} with strides {}", to_string(view.dtype), to_string(view.shape),
                                  c10::str(parameter.strides())));
      parameters_.push_back(parameter);
      offsets_.push_back(bytes_);
      bytes_ += (static_cast<std::int64_t>(view.bytes()) + kLine - 1) / kLine * kLine;
      elements_ += view.elements();
    }
  }
  scope_ = runtime.next_name("sharded", kWorld);
  check_agreement(scope_ + ".agreement", "parameters of a sharded optimizer", lines, runtime);
  const at::NoGradGuard no_grad;
  share_block();
  make_block();
  make_parts(groups);
}

// Rank 0 makes one block for all; if one rank cannot open it, nobody uses it.
void ParameterShards::share_block() {
  Runtime& runtime = this->runtime();
  const Topology& topology = runtime.topology();
  if (topology.local_size != topology.size || topology.size == 1) return;
  TensorMemory* memory = runtime.tensor_memory().get();
  std::string card;
  if (topology.rank == 0 && memory != nullptr) {
    try {
      TensorMemory::Block block = memory->share(static_cast<std::size_t>(bytes_));
      block_ = std::move(block.memory);
      card = std::move(block.card);
    } catch (const Error& error) {
      log(LogLevel::warning, "rank 0: each rank has its own copy of the parameters. {}", error.what());
    }
  }
  const ConstTensorView own(card.data(), DataType::uint8, {static_cast<std::int64_t>(card.size())});
  Handle cards = allgather_async(scope_ + ".card", own, runtime);
  cards.wait();
  if (topology.rank != 0 && memory != nullptr) {
    const TensorView& all = cards.output();
    block_ = memory->open(std::string(static_cast<const char*>(all.data), all.bytes()));
  }
  std::vector<std::uint8_t> opened{static_cast<std::uint8_t>(block_ ? 1 : 0)};
  allreduce_async(scope_ + ".opened", view(opened), view(opened), {ReduceOp::min}, runtime).wait();
  shared_ = opened.front() == 1;
  if (!shared_) block_.reset();
}

// Moves the parameters into the block, with the values of rank 0.
void ParameterShards::make_block() {
  Runtime& runtime = this->runtime();
  const Rank rank = runtime.topology().rank;
  if (!block_) block_ = runtime.allocate(static_cast<std::size_t>(bytes_));
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    at::Tensor& parameter = parameters_[i];
    const at::Tensor place = at::from_blob(
        memory_of(i), parameter.sizes(), parameter.strides(), [block = block_](void*) {},
        at::TensorOptions(parameter.scalar_type()));
    if (rank == 0 || !shared_) place.copy_(parameter.detach());
    parameter.set_data(place);
  }
  const TensorView all = bytes_at(block_.get(), bytes_);
  if (shared_) {
    barrier_async(runtime).wait();
  } else if (bytes_ > 0) {
    broadcast_async(scope_ + ".values", all, all, 0, runtime).wait();
  }
}

ParameterShards::~ParameterShards() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; shared_ && i < parameters_.size(); ++i) {
    at::Tensor& parameter = parameters_[i];
    if (parameter.const_data_ptr() != memory_of(i)) continue;
    try {
      parameter.set_data(parameter.detach().clone());
    } catch (const std::exception& error) {
      log(LogLevel::error, "parameter.{} stays in memory shared with other ranks: {}", i, error.what());
    }
  }
}

ParameterShards::Cut ParameterShards::cut_of(Rank rank) const {
  std::int64_t target = elements_ * rank / runtime().topology().size;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (target < parameters_[i].numel()) return {i, target / kGrain * kGrain};
    target -= parameters_[i].numel();
  }
  return {parameters_.size(), 0};
}

std::int64_t ParameterShards::place_of(Cut cut) const {
  if (cut.parameter == parameters_.size()) return bytes_;
  return offsets_[cut.parameter] +
         cut.element * static_cast<std::int64_t>(parameters_[cut.parameter].element_size());
}

void ParameterShards::make_parts(const Groups& groups) {
  const Rank rank = runtime().topology().rank;
  const Cut first = cut_of(rank), last = cut_of(rank + 1);
  std::size_t next = 0;
  std::set<const void*> seen;
  for (const auto& group : groups) {
    std::vector<at::Tensor> leaves;
    for (const at::Tensor& parameter : group.params()) {
      if (!seen.insert(parameter.unsafeGetTensorImpl()).second) continue;
      const std::size_t i = next++;
      if (i < first.parameter || i > last.parameter) continue;
      const std::int64_t begin = i == first.parameter ? first.element : 0;
      const std::int64_t end = i == last.parameter ? last.element : parameter.numel();
      if (begin >= end) continue;
      std::byte* memory = memory_of(i) + begin * static_cast<std::int64_t>(parameter.element_size());
      leaves.push_back(at::from_blob(
          memory, {end - begin}, [block = block_](void*) {}, at::TensorOptions(parameter.scalar_type())));
      parts_.push_back({i, begin, end, leaves.back()});
    }
    auto options = group.has_options() ? group.options().clone() : nullptr;
    parts_of_groups_.emplace_back(std::move(leaves), std::move(options));
  }
}

void ParameterShards::begin_step(const Groups& stepped) {
  const Topology& topology = runtime().topology();
  std::vector<at::Tensor> leaves;
  for (const auto& group : stepped) leaves.insert(leaves.end(), group.params().begin(), group.params().end());
  auto same = [](const at::Tensor& leaf, const Part& part) { return leaf.is_same(part.leaf); };
  if (!std::ranges::equal(leaves, parts_, same)) {
    refuse(fmt::format(
        "rank {}: the parameter groups of a ShardedOptimizer have changed. Make a new one for all "
        "parameters.",
        topology.rank));
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].numel() == 0 || parameters_[i].const_data_ptr() == memory_of(i)) continue;
    refuse(fmt::format(
        "rank {}: parameter.{} has moved to other memory since the ShardedOptimizer was made (by to(), "
        "set_data() or another ShardedOptimizer). Prepare the model before making it.",
        topology.rank, i));
  }
  // An operation that a rank which has joined cannot take part in.
  std::vector<std::uint8_t> here(1);
  Handle there = allgather_async(scope_ + ".step", view(here), runtime());
  there.wait();
  if (there.output().elements() != topology.size) {
    refuse(fmt::format("rank {}: only {} of {} ranks step a ShardedOptimizer; it cannot be used with join()",
                       topology.rank, there.output().elements(), topology.size));
  }
  const at::NoGradGuard no_grad;
  for (Part& part : parts_) {
    const at::Tensor& parameter = parameters_[part.parameter];
    const at::Tensor& gradient = parameter.grad();
    part.leaf.mutable_grad() =
        gradient.defined() ? flat(like(parameter, gradient)).narrow(0, part.begin, part.end - part.begin)
                           : at::Tensor();
  }
}

void ParameterShards::end_step() {
  for (Part& part : parts_) part.leaf.mutable_grad().reset();
  for (const at::Tensor& parameter : parameters_) mark_changed(parameter);
  if (shared_) {
    barrier_async(runtime()).wait();
  } else {
    gather();
  }
}

void ParameterShards::gather() {
  const Topology& topology = runtime().topology();
  if (topology.size == 1) return;
  const std::int64_t begin = place_of(cut_of(topology.rank)), end = place_of(cut_of(topology.rank + 1));
  Handle gathered =
      allgather_async(scope_ + ".parts", bytes_at(block_.get() + begin, end - begin), runtime());
  gathered.wait();
  std::memcpy(block_.get(), gathered.output().data, static_cast<std::size_t>(bytes_));
}

void ParameterShards::save(torch::serialize::OutputArchive& archive) const {
  const Topology& topology = runtime().topology();
  archive.write(kArchived, at::tensor({std::int64_t{topology.rank}, std::int64_t{topology.size}, elements_}),
                true);
}

void ParameterShards::check(torch::serialize::InputArchive& archive) const {
  const Topology& topology = runtime().topology();
  at::Tensor part;
  if (!archive.try_read(kArchived, part, true) || part.numel() != 3 || part.scalar_type() != at::kLong) {
    refuse(fmt::format(
        "rank {}: this archive is not of a ShardedOptimizer; each rank saves its part and loads it",
        topology.rank));
  }
  const auto* found = part.const_data_ptr<std::int64_t>();
  if (found[0] == topology.rank && found[1] == topology.size && found[2] == elements_) return;
  refuse(fmt::format(
      "rank {}: this archive is the part of rank {} of {}, of {} elements, and this is rank {} of {}, of "
      "{}. Start as many ranks as saved it, and give each its own.",
      topology.rank, found[0], found[1], found[2], topology.rank, topology.size, elements_));
}

Runtime& ParameterShards::runtime() const { return runtime_ != nullptr ? *runtime_ : default_runtime(); }

}  // namespace rueda
