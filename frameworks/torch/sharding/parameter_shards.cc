// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/sharding/parameter_shards.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <torch/serialize/archive.h>

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/error.h"
#include "core/base/host_buffer.h"
#include "core/base/log.h"
#include "core/engine/runtime.h"
#include "frameworks/torch/collectives/agreement.h"
#include "frameworks/torch/collectives/tensor_adapter.h"
#include "frameworks/torch/sharding/host_shared_block.h"
#include "frameworks/torch/sharding/step_barrier.h"
#include "rueda/torch/collectives/operations.h"
#include "rueda/torch/state/objects.h"

namespace rueda {
namespace {

constexpr const char* kArchived = "rueda_part";
constexpr const char* kSubject = "parameters of a sharded optimizer";

// As torch's allocator for that device gives it.
std::shared_ptr<std::byte> memory_on(at::Device device, std::int64_t bytes) {
  const auto memory =
      std::make_shared<at::Tensor>(at::empty({bytes}, at::TensorOptions(at::kByte).device(device)));
  return {memory, static_cast<std::byte*>(memory->mutable_data_ptr())};
}

// The elements in the order in which they lie in memory.
at::Tensor flat(const at::Tensor& tensor) { return tensor.as_strided({tensor.numel()}, {1}); }

}  // namespace

ParameterShards::ParameterShards(const Groups& groups, const Division& division, Runtime& runtime)
    : runtime_(runtime),
      rank_(division.alone ? 0 : runtime.topology().rank),
      ranks_(division.alone ? 1 : runtime.topology().size),
      copies_(std::min(division.copies, ranks_ - 1)) {
  const at::NoGradGuard no_grad;
  if (division.alone) {
    take_over(groups);
  } else {
    scope_ = runtime.next_name("sharded", kWorld);
    std::vector<std::string> lines;
    all_use([&] { lines = take_over(groups); }, scope_ + ".parameters", kSubject, runtime);
    lines.push_back(fmt::format("{} copies of each part", division.copies));
    check_agreement(scope_ + ".agreement", kSubject, lines, runtime);
    if (device_.is_cpu())
      block_ = share_one_block(scope_, "the parameters", static_cast<std::size_t>(bytes_), runtime);
  }
  shared_ = block_ != nullptr;
  make_block(division.alone);
  make_parts(groups);
}

// The lines that ranks must agree on. Throws if this rank refuses the parameters by itself.
std::vector<std::string> ParameterShards::take_over(const Groups& groups) {
  std::map<const void*, std::string> owner_of;  // by storage
  std::vector<std::string> lines;
  for (const auto& group : groups) {
    lines.push_back(fmt::format("group of {} parameters", group.params().size()));
    for (const at::Tensor& parameter : group.params()) {
      const std::string name = fmt::format("parameter.{}", parameters_.size());
      check_movable(parameter, name);
      const auto [owner, fresh] = owner_of.try_emplace(parameter.storage().unsafeGetStorageImpl(), name);
      if (!fresh) {
        refuse(
            fmt::format("{} and {} have one memory; give a ShardedOptimizer each parameter once, and tie "
                        "weights by using one tensor",
                        owner->second, name));
      }
      if (!parameter.is_non_overlapping_and_dense() || parameter.storage().nbytes() != parameter.nbytes())
        refuse(fmt::format("{} is part of another tensor; a ShardedOptimizer takes whole ones", name));
      if (parameters_.empty()) device_ = parameter.device();
      if (parameter.device() != device_) {
        refuse(
            fmt::format("parameter.0 is on the device {}, and {} on {}; a ShardedOptimizer takes parameters "
                        "of one",
                        device_.str(), name, parameter.device().str()));
      }
      lines.push_back(fmt::format("{} {} with strides {}{}",
                                  to_string(data_type_for(parameter.scalar_type(), name)),
                                  to_string(parameter.sizes()), c10::str(parameter.strides()),
                                  device_.is_cpu() ? "" : " on a device"));
      parameters_.push_back(parameter);
      offsets_.push_back(bytes_);
      bytes_ += static_cast<std::int64_t>(HostBuffer::whole_lines(parameter.nbytes()));
      elements_ += parameter.numel();
    }
  }
  return lines;
}

// Moves the parameters into the block, with the values of rank 0.
void ParameterShards::make_block(bool alone) {
  Runtime& runtime = this->runtime();
  const auto get_memory = [&] {
    block_ =
        device_.is_cpu() ? runtime.allocate(static_cast<std::size_t>(bytes_)) : memory_on(device_, bytes_);
  };
  if (alone) {
    get_memory();
  } else if (!shared_) {
    all_use(get_memory, scope_ + ".memory", kSubject, runtime);
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    at::Tensor& parameter = parameters_[i];
    const at::Tensor view =
        tensor_at(memory_of(i), parameter.sizes(), parameter.strides(), parameter.scalar_type());
    if (rank_ == 0 || !shared_) view.copy_(parameter.detach());
    parameter.set_data(view);
  }
  if (alone) return;
  if (shared_) {
    barrier_async(runtime).wait();
  } else if (bytes_ > 0) {
    broadcast_(bytes_of_all(), 0, scope_ + ".values", runtime);
  }
}

at::Tensor ParameterShards::tensor_at(std::byte* memory, at::IntArrayRef sizes, at::IntArrayRef strides,
                                      at::ScalarType type) const {
  return at::from_blob(
      memory, sizes, strides, [block = block_](void*) {}, at::TensorOptions(type).device(device_), device_);
}

at::Tensor ParameterShards::bytes_of_all() const { return tensor_at(block_.get(), {bytes_}, {1}, at::kByte); }

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
  std::int64_t target = elements_ * rank / ranks_;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (target < parameters_[i].numel()) return {i, target / kGrain * kGrain};
    target -= parameters_[i].numel();
  }
  return {parameters_.size(), 0};
}

std::int64_t ParameterShards::offset_of(Cut cut) const {
  if (cut.parameter == parameters_.size()) return bytes_;
  return offsets_[cut.parameter] +
         cut.element * static_cast<std::int64_t>(parameters_[cut.parameter].element_size());
}

void ParameterShards::make_parts(const Groups& groups) {
  std::size_t parameter = 0;
  for (const auto& group : groups) {
    std::vector<at::Tensor> leaves;
    for (std::size_t i = 0; i < group.params().size(); ++i, ++parameter) {
      for (Rank before = 0; before <= copies_; ++before)
        add_part(parameter, (rank_ + ranks_ - before) % ranks_, leaves);
    }
    auto options = group.has_options() ? group.options().clone() : nullptr;
    parts_of_groups_.emplace_back(std::move(leaves), std::move(options));
  }
}

// A copy in a shared block has memory of its own: its owner steps the block.
void ParameterShards::add_part(std::size_t parameter, Rank number, std::vector<at::Tensor>& leaves) {
  const Cut first = cut_of(number), last = cut_of(number + 1);
  if (parameter < first.parameter || parameter > last.parameter) return;
  const at::Tensor& whole = parameters_[parameter];
  const std::int64_t begin = parameter == first.parameter ? first.element : 0;
  const std::int64_t end = parameter == last.parameter ? last.element : whole.numel();
  if (begin >= end) return;
  std::byte* memory = memory_of(parameter) + begin * static_cast<std::int64_t>(whole.element_size());
  const at::Tensor view = tensor_at(memory, {end - begin}, {1}, whole.scalar_type());
  const bool beside = shared_ && number != rank_;
  leaves.push_back(beside ? view.clone() : view);
  parts_.push_back({parameter, begin, end, number, leaves.back(), beside ? view : at::Tensor()});
}

Status ParameterShards::check_step(const Groups& stepped) const {
  const Rank rank = runtime().topology().rank;
  std::vector<at::Tensor> leaves;
  for (const auto& group : stepped) leaves.insert(leaves.end(), group.params().begin(), group.params().end());
  auto same = [](const at::Tensor& leaf, const Part& part) { return leaf.is_same(part.leaf); };
  if (!std::ranges::equal(leaves, parts_, same)) {
    return Status::invalid_argument(
        fmt::format("rank {}: the parameter groups of a ShardedOptimizer have changed. Make a new one for "
                    "all parameters.",
                    rank));
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].numel() == 0 || parameters_[i].const_data_ptr() == memory_of(i)) continue;
    return Status::invalid_argument(
        fmt::format("rank {}: parameter.{} has moved to other memory since the ShardedOptimizer was made (by "
                    "torch::load, to(), "
                    "set_data() or another ShardedOptimizer). Load and prepare the model before making it, "
                    "or copy values into "
                    "the parameters (copy_).",
                    rank, i));
  }
  return {};
}

void ParameterShards::begin_step(const Groups& stepped) {
  Status own = check_step(stepped);
  if (own.ok()) own = give_gradients();
  barrier_before(scope_ + ".step", "step", "a ShardedOptimizer", own, runtime());
}

Status ParameterShards::give_gradients() {
  const at::NoGradGuard no_grad;
  renew_copies();  // the program may have changed parameters since the last step
  for (Part& part : parts_) {
    const at::Tensor& parameter = parameters_[part.parameter];
    const at::Tensor& gradient = parameter.grad();
    if (gradient.defined() && gradient.layout() != at::kStrided)
      return Status::invalid_argument(
          fmt::format("rank {}: the gradient of parameter.{} is sparse; synchronize() makes it dense",
                      runtime().topology().rank, part.parameter));
    part.leaf.mutable_grad() =
        gradient.defined()
            ? flat(in_memory_order_of(parameter, gradient)).narrow(0, part.begin, part.end - part.begin)
            : at::Tensor();
  }
  return {};
}

void ParameterShards::end_step(bool well) {
  for (Part& part : parts_) part.leaf.mutable_grad().reset();
  for (const at::Tensor& parameter : parameters_) mark_changed(parameter);
  if (!shared_ && runtime().topology().size > 1) gather();
  barrier_after_step(scope_ + ".stepped", well, runtime());
}

void ParameterShards::renew_copies() {
  const at::NoGradGuard no_grad;
  for (Part& part : parts_) {
    if (part.original.defined()) part.leaf.copy_(part.original);
  }
}

void ParameterShards::gather() {
  const at::NoGradGuard no_grad;
  const std::int64_t begin = offset_of(cut_of(rank_)), end = offset_of(cut_of(rank_ + 1));
  const at::Tensor all = bytes_of_all();
  all.copy_(allgather(all.narrow(0, begin, end - begin), scope_ + ".parts", runtime()));
}

SteppedPart ParameterShards::stepped(const Part& part) const {
  return {fmt::format("parameter.{}", part.parameter), part.begin, part.end,
          parameters_[part.parameter].numel(), part.leaf};
}

SavedModel ParameterShards::gather_state(const torch::optim::Optimizer& optimizer, Rank root) const {
  const bool is_root = runtime().topology().rank == root;
  SavedModel saved;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    SavedModel own;
    for (const Part& part : parts_) {
      if (part.parameter == i && part.number == rank_)
        own.parameters.push_back(saved_state_of(stepped(part), optimizer));
    }
    std::vector<SavedParameter> whole;
    const std::int64_t elements = parameters_[i].numel();
    if (is_root) whole.push_back({fmt::format("parameter.{}", i), 0, elements, elements, {}, {}});
    put_together(whole, own, scope_ + ".state", root, runtime());
    if (is_root) saved.parameters.push_back(std::move(whole.front()));
  }
  if (is_root) saved.groups = saved_groups(optimizer);
  return saved;
}

void ParameterShards::load_state(torch::optim::Optimizer& optimizer, const MakeState& make_state,
                                 const SavedModel& saved) const {
  const at::NoGradGuard no_grad;
  const Rank rank = runtime().topology().rank;
  std::vector<at::Tensor> leaves;
  std::vector<SavedParameter> parts;
  for (const Part& part : parts_) {
    const SteppedPart mine = stepped(part);
    SavedParameter& filled =
        parts.emplace_back(SavedParameter{mine.name, mine.begin, mine.end, mine.elements, {}, {}});
    std::int64_t taken = 0;
    for (const SavedParameter& each : saved.parameters) taken += take(filled, each);
    check_whole(filled, taken, rank);
    leaves.push_back(part.leaf);
  }
  give_groups(optimizer, saved.groups, rank);
  give_states(optimizer, make_state, leaves, parts);
}

std::map<Rank, std::vector<SavedParameter>> ParameterShards::held(
    const std::vector<SavedValues>& states) const {
  std::map<Rank, std::vector<SavedParameter>> held;
  for (Rank before = 0; before <= copies_; ++before)
    held[(rank_ + ranks_ - before) % ranks_];  // may be empty
  const std::vector<SavedParameter> all = to_fill();
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    SavedParameter& saved = held[parts_[i].number].emplace_back(all[i]);
    saved.value = saved.value.cpu();
    saved.state = states.at(i);
  }
  return held;
}

std::vector<SavedParameter> ParameterShards::to_fill() const {
  std::vector<SavedParameter> all;
  for (const Part& part : parts_) {
    const SteppedPart mine = stepped(part);
    all.push_back({mine.name, mine.begin, mine.end, mine.elements, part.leaf.detach(), {}});
  }
  return all;
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
  part = part.cpu();
  const auto* found = part.const_data_ptr<std::int64_t>();
  if (found[0] == topology.rank && found[1] == topology.size && found[2] == elements_) return;
  refuse(fmt::format(
      "rank {}: this archive is the part of rank {} of {}, of {} elements, and this is rank {} of {}, of "
      "{}. Start as many ranks as saved it, and give each its own.",
      topology.rank, found[0], found[1], found[2], topology.rank, topology.size, elements_));
}

}  // namespace rueda
