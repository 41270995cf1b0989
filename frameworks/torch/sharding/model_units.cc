// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/sharding/model_units.h"

#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <set>

#include "core/base/error.h"
#include "core/base/host_buffer.h"
#include "core/base/log.h"
#include "core/engine/runtime.h"
#include "frameworks/torch/collectives/agreement.h"
#include "frameworks/torch/collectives/tensor_adapter.h"
#include "frameworks/torch/reducer/gradient_options.h"
#include "frameworks/torch/sharding/host_shared_block.h"
#include "frameworks/torch/sharding/step_barrier.h"
#include "rueda/torch/state/parameter_groups.h"

namespace rueda {
namespace {

constexpr const char* kRootName = "the root";

FlatParameter::Division division_among(const Topology& ranks, Rank copies) {
  return {ranks.rank, ranks.size, std::min(copies, ranks.size - 1)};
}

}  // namespace

ModelUnits::ModelUnits(torch::nn::Module& module, const ShardedModelOptions& options, bool alone,
                       Runtime& runtime)
    : runtime_(runtime),
      options_(options),
      division_(alone ? FlatParameter::Division() : division_among(runtime.topology(), 0)) {
  if (options.backward_passes_per_step < 1) {
    refuse(fmt::format("rank {}: backward_passes_per_step is {}; it must be at least 1", rank(),
                       options.backward_passes_per_step));
  }
  if (options.op != ReduceOp::average && options.op != ReduceOp::sum) {
    refuse(
        fmt::format("rank {}: a ShardedModel's op is average or sum, not {}", rank(), to_string(options.op)));
  }
  if (options.compression == Compression::topk) {
    refuse(fmt::format(
        "rank {}: a ShardedModel with compression topk: its gradients are reduced in parts, which "
        "travel whole; choose fp16 or bf16, or a DistributedOptimizer",
        rank()));
  }
  make_units(module);
  if (!alone) {
    scope_ = runtime.next_name("sharded_model", kWorld);
    check_ranks();
  }
  const at::NoGradGuard no_grad;
  lay_out_parameters(alone);
}

ModelUnits::ModelUnits(const ModelUnits& former, Rank copies, Runtime& runtime)
    : runtime_(runtime),
      options_(former.options_),
      division_(division_among(runtime.topology(), copies)),
      scope_(runtime.next_name("sharded_model", kWorld)),
      device_(former.device_),
      unit_of_(former.unit_of_) {
  for (const auto& unit : former.units_) {
    std::vector<FlatParameter::Parameter> same;
    for (const FlatParameter::Parameter& each : unit->parameters()) same.push_back({each.name, each.tensor});
    add_unit(unit->name(), std::move(same));
  }
  check_ranks();
  const at::NoGradGuard no_grad;
  lay_out_anew();
  Groups whole;
  for (const std::vector<at::Tensor>& group : former.given_) whole.emplace_back(group);
  make_groups(whole);
}

ModelUnits::~ModelUnits() {
  if (!shared_) return;
  for (const auto& unit : units_) {
    try {
      unit->leave();
    } catch (const std::exception& error) {
      log(LogLevel::error, "parameters of '{}' stay in memory shared with other ranks: {}", unit->name(),
          error.what());
    }
  }
}

// Each parameter belongs to the innermost unit around it, or, if there are several, to the root.
void ModelUnits::make_units(torch::nn::Module& module) {
  const auto modules = module.named_modules("", /*include_self=*/false);
  std::vector<std::string> names{kRootName};
  for (const std::string& name : options_.units) {
    if (!modules.contains(name))
      refuse(
          fmt::format("rank {}: there is no submodule '{}' to be a unit; units have the names of "
                      "named_modules()",
                      rank(), name));
    if (std::ranges::count(options_.units, name) > 1)
      refuse(fmt::format("rank {}: the unit '{}' is given twice", rank(), name));
    unit_of_[modules[name].get()] = names.size();
    names.push_back(name);
  }
  auto owner_of = [&](const std::string& parameter) {
    std::size_t owner = kRoot;
    for (std::size_t unit = 1; unit < names.size(); ++unit) {
      const bool longer = owner == kRoot || names[unit].size() > names[owner].size();
      if (longer && parameter.starts_with(names[unit] + ".")) owner = unit;
    }
    return owner;
  };
  struct Found {
    FlatParameter::Parameter parameter;
    std::size_t owner;
  };
  std::vector<Found> found;
  for (const auto& item : module.named_parameters()) {
    const std::size_t owner = owner_of(item.key());
    const auto same = std::ranges::find_if(
        found, [&](const Found& each) { return each.parameter.tensor.is_same(item.value()); });
    if (same == found.end()) {
      check(item.key(), item.value());
      found.push_back({{item.key(), item.value()}, owner});
    } else if (same->owner != owner) {
      same->owner = kRoot;
    }
  }
  if (found.empty()) refuse(fmt::format("rank {}: the model has no parameters to shard", rank()));
  for (std::size_t unit = 0; unit < names.size(); ++unit) {
    std::vector<FlatParameter::Parameter> own;
    for (const Found& each : found) {
      if (each.owner == unit) own.push_back(each.parameter);
    }
    add_unit(names[unit], std::move(own));
  }
}

void ModelUnits::check(const std::string& name, const at::Tensor& tensor) {
  check_movable(tensor, name);
  if (!tensor.is_leaf()) {
    refuse(fmt::format(
        "rank {}: parameter '{}' is the result of a computation; give the tensor it was computed from",
        rank(), name));
  }
  if (!tensor.is_non_overlapping_and_dense() || tensor.storage().nbytes() != tensor.nbytes()) {
    refuse(fmt::format(
        "rank {}: parameter '{}' is part of another tensor; a ShardedModel takes whole ones, and tied "
        "weights that are one tensor",
        rank(), name));
  }
  if (!device_) device_ = tensor.device();
  if (tensor.device() == *device_) return;
  refuse(
      fmt::format("rank {}: parameter '{}' is on the device {}, and others on {}; a ShardedModel takes those "
                  "of one",
                  rank(), name, tensor.device().str(), device_->str()));
}

void ModelUnits::add_unit(const std::string& name, std::vector<FlatParameter::Parameter> parameters) {
  const std::size_t first_of_all = all_.size();
  for (const FlatParameter::Parameter& parameter : parameters) {
    const FlatParameter::Parameter& first = parameters.front();
    if (parameter.tensor.scalar_type() != first.tensor.scalar_type()) {
      refuse(
          fmt::format("rank {}: '{}' is {} and '{}' is {}, in one unit ({}); the parameters of a unit have "
                      "one type. Make "
                      "a unit of those of another type.",
                      rank(), first.name, c10::toString(first.tensor.scalar_type()), parameter.name,
                      c10::toString(parameter.tensor.scalar_type()), name));
    }
    locations_.push_back({units_.size(), all_.size() - first_of_all});
    all_.push_back(parameter.tensor);
  }
  auto taken = [&](std::int64_t elements) {
    return std::ranges::any_of(units_, [&](const auto& unit) { return unit->part_elements() == elements; });
  };
  std::unique_ptr<FlatParameter> unit;
  std::int64_t least = 1;
  do {
    unit = std::make_unique<FlatParameter>(name, parameters, least, division_);
    least = unit->part_elements() + 1;
  } while (taken(unit->part_elements()));
  units_.push_back(std::move(unit));
  first_.push_back(first_of_all);
}

void ModelUnits::check_ranks() const {
  std::vector<std::string> lines{
      fmt::format("op {}, backward_passes_per_step {}, compression {}, share {} and part_copies {}",
                  to_string(options_.op), options_.backward_passes_per_step, to_string(options_.compression),
                  options_.share, options_.part_copies)};
  for (const auto& unit : units_) {
    lines.push_back(fmt::format("the unit '{}'", unit->name()));
  }
  for (const auto& unit : units_) {
    for (const FlatParameter::Parameter& parameter : unit->parameters()) {
      const at::Tensor& tensor = parameter.tensor;
      lines.push_back(fmt::format("'{}' {} {} with strides {}{}", parameter.name,
                                  to_string(data_type_for(tensor.scalar_type(), parameter.name)),
                                  to_string(tensor.sizes()), c10::str(tensor.strides()),
                                  device_->is_cpu() ? "" : " on a device"));
    }
  }
  check_agreement(scope_ + ".agreement", "units of a ShardedModel", lines, runtime());
}

// For the parameters of all units one after another. Null where ranks do not share them.
std::shared_ptr<std::byte> ModelUnits::share_block() {
  if (!options_.share || !device_->is_cpu()) return nullptr;
  std::size_t bytes = 0;
  for (const auto& unit : units_) bytes += HostBuffer::whole_lines(unit->flat_bytes());
  std::shared_ptr<std::byte> block = share_one_block(scope_, "the parameters", bytes, runtime());
  shared_ = block != nullptr;
  return block;
}

void ModelUnits::lay_out_parameters(bool alone) {
  const std::shared_ptr<std::byte> block = alone ? nullptr : share_block();
  std::byte* memory = block.get();
  for (std::size_t i = 0; i < units_.size(); ++i) {
    FlatParameter& unit = *units_[i];
    if (shared_) {
      unit.make_resident(std::shared_ptr<std::byte>(block, memory), rank() == 0);
      memory += HostBuffer::whole_lines(unit.flat_bytes());
    } else if (ranks() == 1) {
      unit.make_resident(nullptr, true);
    } else {
      unit.make_parts(fmt::format("{}.values.{}", scope_, i), runtime());
    }
  }
  if (shared_) barrier_async(runtime()).wait();
}

// Nobody has values yet, and others have not the right ones.
void ModelUnits::lay_out_anew() {
  const std::shared_ptr<std::byte> block = share_block();
  std::byte* memory = block.get();
  for (const auto& unit : units_) {
    if (shared_) {
      unit->make_resident(std::shared_ptr<std::byte>(block, memory), false);
      memory += HostBuffer::whole_lines(unit->flat_bytes());
    } else if (ranks() == 1) {
      unit->make_resident(nullptr, false);
    } else {
      unit->make_room();
    }
  }
}

const ModelUnits::Groups& ModelUnits::make_groups(const Groups& given) {
  std::set<const void*> seen;
  for (const auto& group : given) {
    std::vector<at::Tensor> leaves;
    for (const at::Tensor& parameter : group.params()) {
      const auto found = std::ranges::find(all_, identity(parameter), identity);
      if (found == all_.end() || !seen.insert(identity(parameter)).second) {
        refuse(fmt::format("rank {}: a group has a parameter {}; give each of the model's once", rank(),
                           found == all_.end() ? "that is not the model's" : "twice"));
      }
      const Location location = locations_[static_cast<std::size_t>(found - all_.begin())];
      for (const FlatParameter::Piece& piece : units_[location.unit]->pieces()) {
        if (piece.parameter == location.parameter) leaves.push_back(piece.leaf);
      }
    }
    given_.push_back(group.params());
    auto options = group.has_options() ? group.options().clone() : nullptr;
    groups_.emplace_back(std::move(leaves), std::move(options));
  }
  return groups_;
}

std::optional<std::size_t> ModelUnits::find(const torch::nn::Module& module) const {
  const auto found = unit_of_.find(&module);
  return found == unit_of_.end() ? std::nullopt : std::optional(found->second);
}

std::string ModelUnits::next_name() { return fmt::format("{}.{}", scope_, operations_++); }

std::string ModelUnits::name_of(const char* operation, std::size_t unit) const {
  return fmt::format("{}.{}.{}", scope_, operation, unit);
}

Status ModelUnits::check_step(const Groups& stepped) const {
  const std::vector<at::Tensor> given = parameters_of(stepped), expected = parameters_of(groups_);
  if (!std::ranges::equal(given, expected, [](const at::Tensor& one, const at::Tensor& other) {
        return one.is_same(other);
      })) {
    return Status::invalid_argument(
        fmt::format("rank {}: the parameter groups of a ShardedModel have changed. Make a new one.", rank()));
  }
  for (const auto& unit : units_) {
    if (const std::optional<std::size_t> moved = unit->moved_parameter()) {
      return Status::invalid_argument(fmt::format(
          "rank {}: parameter '{}' has moved to other memory since the ShardedModel was made (by "
          "torch::load, to(), set_data() or another of its kind). Load and prepare the model before "
          "making it, or use load_state_dict().",
          rank(), unit->parameters()[*moved].name));
    }
    if (division_.copies == 0) continue;
    if (const std::optional<std::size_t> replaced = unit->replaced_gradient()) {
      return Status::invalid_argument(fmt::format(
          "rank {}: the gradient of parameter '{}' in param_groups() is another tensor than the ShardedModel "
          "gave it, so the copy of the part on rank {} cannot follow. Change gradients in place, and clear "
          "them by zero_grad() of the ShardedModel.",
          rank(), unit->parameters()[*replaced].name, (rank() + 1) % ranks()));
    }
  }
  return {};
}

void ModelUnits::copy_gradients() {
  for (std::size_t i = 0; i < units_.size(); ++i) {
    if (!units_[i]->empty()) units_[i]->begin_to_copy_gradients(name_of("copies", i), runtime());
  }
  for (const auto& unit : units_) {
    if (!unit->empty()) unit->end_to_copy_gradients();
  }
}

void ModelUnits::renew_copies() {
  for (const auto& unit : units_) unit->renew_copies();
}

// All copies have their gradients before any rank passes the barrier.
void ModelUnits::begin_step(const Groups& stepped) {
  const Status own = check_step(stepped);
  together([&] {
    if (division_.copies > 0) {
      renew_copies();
      copy_gradients();
    }
    barrier_before(next_name(), "step", "a ShardedModel", own, runtime());
  });
}

void ModelUnits::end_step(bool well) {
  for (const auto& unit : units_) unit->forget_copied_gradients();
  mark_parameters_changed();
  barrier_after_step(next_name(), well, runtime());
}

void ModelUnits::mark_parameters_changed() const {
  for (const at::Tensor& parameter : all_) mark_changed(parameter);
}

// Those of groups(), in that order, then the others.
std::vector<ModelUnits::Found> ModelUnits::pieces() const {
  std::map<const void*, Found> found;
  std::vector<Found> all;
  for (const auto& unit : units_) {
    for (const FlatParameter::Piece& piece : unit->pieces())
      found[piece.leaf.unsafeGetTensorImpl()] = {unit.get(), &piece};
  }
  for (const at::Tensor& leaf : parameters_of(groups_)) {
    const auto entry = found.find(leaf.unsafeGetTensorImpl());
    all.push_back(entry->second);
    found.erase(entry);
  }
  for (const auto& unit : units_) {
    for (const FlatParameter::Piece& piece : unit->pieces()) {
      if (found.contains(piece.leaf.unsafeGetTensorImpl())) all.push_back({unit.get(), &piece});
    }
  }
  return all;
}

std::map<Rank, std::vector<SavedParameter>> ModelUnits::held(const std::vector<SavedValues>& states) const {
  const auto owner = [&](std::size_t part) { return (rank() + ranks() - static_cast<Rank>(part)) % ranks(); };
  std::map<Rank, std::vector<SavedParameter>> held;
  for (Rank part = 0; part <= division_.copies; ++part) held[owner(part)];  // it may be empty
  const std::vector<Found> found = pieces();
  const std::vector<SavedParameter> all = to_fill();
  for (std::size_t i = 0; i < all.size(); ++i) {
    SavedParameter& saved = held[owner(found[i].piece->part)].emplace_back(all[i]);
    saved.value = saved.value.cpu();
    if (i < states.size()) saved.state = states[i];
  }
  return held;
}

std::vector<SavedParameter> ModelUnits::to_fill() const {
  std::vector<SavedParameter> all;
  for (const auto& [unit, piece] : pieces()) {
    const FlatParameter::Parameter& parameter = unit->parameters()[piece->parameter];
    all.push_back(
        {parameter.name, piece->begin, piece->end, parameter.tensor.numel(), piece->leaf.detach(), {}});
  }
  return all;
}

}  // namespace rueda
