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

namespace rueda {
namespace {

constexpr const char* kRootName = "the root";

}  // namespace

ModelUnits::ModelUnits(torch::nn::Module& module, const ShardedModelOptions& options, Runtime& runtime)
    : runtime_(runtime) {
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
  make_units(module, options);
  scope_ = runtime.next_name("sharded_model", kWorld);
  check_ranks(options);
  const at::NoGradGuard no_grad;
  place_parameters(options.share && device_->is_cpu());
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

// Each parameter belongs to the innermost unit around it, or, where there are several, to the root.
void ModelUnits::make_units(torch::nn::Module& module, const ShardedModelOptions& options) {
  const auto modules = module.named_modules("", /*include_self=*/false);
  std::vector<std::string> names{kRootName};
  for (const std::string& name : options.units) {
    if (!modules.contains(name))
      refuse(
          fmt::format("rank {}: there is no submodule '{}' to be a unit; units have the names of "
                      "named_modules()",
                      rank(), name));
    if (std::ranges::count(options.units, name) > 1)
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
    places_.push_back({units_.size(), all_.size() - first_of_all});
    all_.push_back(parameter.tensor);
  }
  auto taken = [&](std::int64_t elements) {
    return std::ranges::any_of(units_, [&](const auto& unit) { return unit->part_elements() == elements; });
  };
  std::unique_ptr<FlatParameter> unit;
  std::int64_t least = 1;
  do {
    unit = std::make_unique<FlatParameter>(name, parameters, least, runtime().topology());
    least = unit->part_elements() + 1;
  } while (taken(unit->part_elements()));
  units_.push_back(std::move(unit));
  first_.push_back(first_of_all);
}

void ModelUnits::check_ranks(const ShardedModelOptions& options) const {
  std::vector<std::string> lines{
      fmt::format("op {}, backward_passes_per_step {}, compression {} and share {}", to_string(options.op),
                  options.backward_passes_per_step, to_string(options.compression), options.share)};
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

void ModelUnits::place_parameters(bool share) {
  std::size_t bytes = 0;
  for (const auto& unit : units_) bytes += HostBuffer::whole_lines(unit->flat_bytes());
  std::shared_ptr<std::byte> block;
  if (share) block = share_one_block(scope_, "the parameters", bytes, runtime());
  shared_ = block != nullptr;
  std::byte* place = block.get();
  for (std::size_t i = 0; i < units_.size(); ++i) {
    FlatParameter& unit = *units_[i];
    if (shared_) {
      unit.make_resident(std::shared_ptr<std::byte>(block, place), rank() == 0);
      place += HostBuffer::whole_lines(unit.flat_bytes());
    } else if (runtime().topology().size == 1) {
      unit.make_resident(nullptr, true);
    } else {
      unit.make_parts(fmt::format("{}.values.{}", scope_, i), runtime());
    }
  }
  if (shared_) barrier_async(runtime()).wait();
}

ModelUnits::Groups ModelUnits::groups(const Groups& given) {
  Groups groups;
  std::set<const void*> seen;
  for (const auto& group : given) {
    std::vector<at::Tensor> leaves;
    for (const at::Tensor& parameter : group.params()) {
      const auto found = std::ranges::find(all_, identity(parameter), identity);
      if (found == all_.end() || !seen.insert(identity(parameter)).second) {
        refuse(fmt::format("rank {}: a group has a parameter {}; give each of the model's once", rank(),
                           found == all_.end() ? "that is not the model's" : "twice"));
      }
      const Place place = places_[static_cast<std::size_t>(found - all_.begin())];
      for (const FlatParameter::Piece& piece : units_[place.unit]->pieces()) {
        if (piece.parameter == place.parameter) leaves.push_back(piece.leaf);
      }
    }
    stepped_.insert(stepped_.end(), leaves.begin(), leaves.end());
    auto options = group.has_options() ? group.options().clone() : nullptr;
    groups.emplace_back(std::move(leaves), std::move(options));
  }
  return groups;
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
  std::vector<at::Tensor> leaves;
  for (const auto& group : stepped) leaves.insert(leaves.end(), group.params().begin(), group.params().end());
  if (!std::ranges::equal(leaves, stepped_, [](const at::Tensor& one, const at::Tensor& other) {
        return one.is_same(other);
      })) {
    return Status::invalid_argument(
        fmt::format("rank {}: the parameter groups of a ShardedModel have changed. Make a new one.", rank()));
  }
  for (const auto& unit : units_) {
    const std::optional<std::size_t> moved = unit->moved_parameter();
    if (!moved) continue;
    return Status::invalid_argument(fmt::format(
        "rank {}: parameter '{}' has moved to other memory since the ShardedModel was made (by "
        "torch::load, to(), set_data() or another of its kind). Load and prepare the model before "
        "making it, or use load_state_dict().",
        rank(), unit->parameters()[*moved].name));
  }
  return {};
}

}  // namespace rueda
