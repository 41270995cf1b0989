// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/state/saved_values.h"

#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "core/base/error.h"
#include "core/byte_exchange.h"
#include "frameworks/torch/state/optimizer_tensors.h"
#include "frameworks/torch/state/own_archive.h"
#include "frameworks/torch/state/value_tree.h"
#include "rueda/torch/state/parameter_groups.h"

namespace rueda {
namespace {

using torch::optim::Optimizer;
using torch::optim::OptimizerParamState;
using torch::serialize::InputArchive;
using torch::serialize::OutputArchive;

constexpr const char* kKind = "rueda_sharded_model";

// The values that an optimizer's state, or a group's options, write into an archive. In the host's memory: a
// device has another number on another rank.
template <class Saves>
SavedValues archived_values_of(const Saves& saves) {
  OutputArchive archive;
  saves.serialize(archive);
  InputArchive written = reader_of(archive, at::kCPU);
  SavedValues values;
  for (const std::string& key : written.keys()) written.read(key, values[key]);
  return values;
}

template <class Loads>
void give_archived_values(Loads& loads, const SavedValues& values, at::Device device) {
  OutputArchive archive;
  for (const auto& [key, value] : values) archive.write(key, value);
  InputArchive written = reader_of(archive, device);
  loads.serialize(written);
}

// The same without an archive where the class is known: LibTorch writes one as a program, and adds up
// checksums of all bytes.
SavedValues values_of(const OptimizerParamState& state) {
  const std::unique_ptr<OptimizerParamState> same = state.clone();
  const std::optional<StateFields> fields = fields_of(*same);
  if (!fields) return archived_values_of(state);
  SavedValues values;
  if (fields->step != nullptr) values["step"] = *fields->step;
  for (const auto& [name, tensor] : fields->tensors) {
    if (!tensor->defined()) continue;
    const at::Tensor detached = tensor->detach();
    values[name] = detached.is_cpu() ? detached.clone() : detached.cpu();
  }
  return values;
}

// Returns true if the values are those of these fields.
bool are_values_of(const StateFields& fields, const SavedValues& values) {
  const auto step = values.find("step");
  if (fields.step != nullptr && (step == values.end() || !step->second.isInt())) return false;
  return std::ranges::all_of(fields.tensors, [&](const auto& field) {
    const auto value = values.find(field.first);
    return value == values.end() || value->second.isTensor();
  });
}

void give_values(OptimizerParamState& state, const SavedValues& values, at::Device device) {
  const std::optional<StateFields> fields = fields_of(state);
  if (!fields || !are_values_of(*fields, values)) return give_archived_values(state, values, device);
  if (fields->step != nullptr) *fields->step = values.at("step").toInt();
  for (const auto& [name, tensor] : fields->tensors) {
    if (const auto value = values.find(name); value != values.end())
      *tensor = value->second.toTensor().to(device, /*non_blocking=*/false, /*copy=*/true);
  }
}

ValueTree tree_of(const SavedValues& values) {
  ValueTree tree;
  for (const auto& [name, value] : values) tree.add(name, value);
  return tree;
}

// Throws InvalidArgument unless `found`, the value or tree of that name, is there.
template <class Found>
const Found& present(const Found* found, const std::string& key) {
  if (found == nullptr) refuse(fmt::format("what was saved has no '{}'", key));
  return *found;
}

const c10::IValue& value_in(const ValueTree& tree, const std::string& key) {
  return present(tree.value(key), key);
}

const ValueTree& tree_in(const ValueTree& tree, const std::string& key) {
  return present(tree.tree(key), key);
}

SavedValues values_in(const ValueTree& tree, const std::string& key) {
  SavedValues values;
  for (const auto& [name, node] : tree_in(tree, key).nodes) {
    if (node.tree) refuse(fmt::format("what was saved has a '{}' in '{}', which is no value", name, key));
    values[name] = node.value;
  }
  return values;
}

ValueTree tree_of(const SavedModel& saved) {
  ValueTree tree;
  tree.add(kKind, static_cast<std::int64_t>(saved.parameters.size()));
  tree.add("groups", static_cast<std::int64_t>(saved.groups.size()));
  for (std::size_t i = 0; i < saved.parameters.size(); ++i) {
    const SavedParameter& parameter = saved.parameters[i];
    ValueTree nested;
    nested.add("name", parameter.name);
    nested.add("begin", parameter.begin);
    nested.add("end", parameter.end);
    nested.add("elements", parameter.elements);
    if (parameter.value.defined()) nested.add("value", parameter.value);
    nested.add("state", tree_of(parameter.state));
    tree.add(fmt::format("parameters/{}", i), std::move(nested));
  }
  for (std::size_t i = 0; i < saved.groups.size(); ++i)
    tree.add(fmt::format("groups/{}", i), tree_of(saved.groups[i]));
  return tree;
}

SavedParameter saved_parameter_of(const ValueTree& tree) {
  SavedParameter parameter{value_in(tree, "name").toStringRef(),
                           value_in(tree, "begin").toInt(),
                           value_in(tree, "end").toInt(),
                           value_in(tree, "elements").toInt(),
                           {},
                           values_in(tree, "state")};
  if (const c10::IValue* const value = tree.value("value")) parameter.value = value->toTensor();
  return parameter;
}

SavedModel saved_model_of(const ValueTree& tree) {
  const c10::IValue* const parameters = tree.value(kKind);
  const c10::IValue* const groups = tree.value("groups");
  if (parameters == nullptr || groups == nullptr) refuse("this archive is not of a ShardedModel");
  try {
    SavedModel saved;
    for (std::int64_t i = 0; i < parameters->toInt(); ++i)
      saved.parameters.push_back(saved_parameter_of(tree_in(tree, fmt::format("parameters/{}", i))));
    for (std::int64_t i = 0; i < groups->toInt(); ++i)
      saved.groups.push_back(values_in(tree, fmt::format("groups/{}", i)));
    return saved;
  } catch (const c10::Error& error) {  // a value of another kind
    refuse(fmt::format("what was saved of a ShardedModel is damaged: {}", error.what_without_backtrace()));
  }
}

// The elements in the order in which they lie in memory.
at::Tensor flat(const SavedParameter& saved) {
  return saved.value.as_strided({saved.end - saved.begin}, {1});
}

bool is_of_elements(const c10::IValue& value, const SavedParameter& of) {
  return value.isTensor() && value.toTensor().dim() == 1 && value.toTensor().numel() == of.end - of.begin;
}

}  // namespace

std::int64_t take(SavedParameter& to, const SavedParameter& from) {
  const std::int64_t begin = std::max(to.begin, from.begin), end = std::min(to.end, from.end);
  if (to.name != from.name || begin >= end) return 0;
  if (to.elements != from.elements || (from.value.defined() && from.value.numel() != from.end - from.begin)) {
    refuse(fmt::format("what was saved of parameter '{}' is of {} elements, and it has {}", to.name,
                       from.elements, to.elements));
  }
  auto copy = [&](const at::Tensor& into, const at::Tensor& out_of) {
    into.narrow(0, begin - to.begin, end - begin).copy_(out_of.narrow(0, begin - from.begin, end - begin));
  };
  if (to.value.defined() && from.value.defined()) copy(flat(to), flat(from));
  for (const auto& [key, value] : from.state) {
    if (!is_of_elements(value, from)) {
      to.state[key] = value;
      continue;
    }
    const at::Tensor& part = value.toTensor();
    const auto [entry, fresh] = to.state.try_emplace(key);
    if (fresh) entry->second = at::zeros({to.end - to.begin}, part.options());
    copy(entry->second.toTensor(), part);
  }
  return end - begin;
}

void check_whole(const SavedParameter& parameter, std::int64_t taken, Rank rank) {
  const std::int64_t elements = parameter.end - parameter.begin;
  if (taken == elements) return;
  refuse(fmt::format(
      "rank {}: of the {} elements of parameter '{}' that it needs, {} were saved there. Give the "
      "files of all ranks, each once.",
      rank, elements, parameter.name, taken));
}

std::vector<SavedValues> saved_groups(const Optimizer& optimizer) {
  std::vector<SavedValues> groups;
  for (const auto& group : optimizer.param_groups()) groups.push_back(archived_values_of(group.options()));
  return groups;
}

SavedParameter saved_state_of(const SteppedPart& part, const Optimizer& optimizer) {
  SavedParameter saved{part.name, part.begin, part.end, part.elements, {}, {}};
  const auto state = optimizer.state().find(part.leaf.unsafeGetTensorImpl());
  if (state != optimizer.state().end()) saved.state = values_of(*state->second);
  return saved;
}

std::vector<SavedValues> saved_states(const Optimizer& optimizer) {
  std::vector<SavedValues> states;
  for (const at::Tensor& leaf : parameters_of(optimizer.param_groups()))
    states.push_back(saved_state_of({.leaf = leaf}, optimizer).state);
  return states;
}

void give_states(Optimizer& optimizer, const MakeState& make_state, const std::vector<at::Tensor>& leaves,
                 const std::vector<SavedParameter>& parts) {
  auto options_of = [&](const at::Tensor& leaf) -> const torch::optim::OptimizerOptions* {
    for (const auto& group : optimizer.param_groups()) {
      if (std::ranges::any_of(group.params(), [&](const at::Tensor& each) { return each.is_same(leaf); }))
        return &group.options();
    }
    return nullptr;
  };
  optimizer.state().clear();
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const torch::optim::OptimizerOptions* options = options_of(leaves[i]);
    if (parts[i].state.empty() || options == nullptr) continue;
    if (auto state = make_state(leaves[i], *options)) {
      give_values(*state, parts[i].state, leaves[i].device());
      optimizer.state()[leaves[i].unsafeGetTensorImpl()] = std::move(state);
    }
  }
}

void give_groups(Optimizer& optimizer, const std::vector<SavedValues>& groups, Rank rank) {
  if (groups.size() != optimizer.param_groups().size()) {
    refuse(fmt::format("rank {}: {} parameter groups were saved, and there are {}", rank, groups.size(),
                       optimizer.param_groups().size()));
  }
  for (std::size_t i = 0; i < groups.size(); ++i)
    give_archived_values(optimizer.param_groups()[i].options(), groups[i], at::kCPU);
}

void put_together(std::vector<SavedParameter>& whole, const SavedModel& own, const std::string& name,
                  Rank root, Runtime& runtime) {
  const std::vector<std::string> all = allgather_bytes(bytes_of(own), name, runtime);
  if (runtime.topology().rank != root) return;
  const at::NoGradGuard no_grad;
  for (const std::string& bytes : all) {
    for (const SavedParameter& part : saved_of(bytes).parameters) {
      for (SavedParameter& parameter : whole) take(parameter, part);
    }
  }
}

void write(OutputArchive& archive, const SavedModel& saved) { write(archive, tree_of(saved)); }

SavedModel read_saved_model(InputArchive& archive) { return saved_model_of(tree_of(archive)); }

std::string bytes_of(const SavedModel& saved) { return to_bytes(tree_of(saved)); }

SavedModel saved_of(const std::string& bytes, const LoadOptions& options) {
  if (!is_torch_archive(bytes)) return saved_model_of(value_tree_of(bytes));
  InputArchive archive = read_archive(bytes, at::kCPU, options);
  return read_saved_model(archive);
}

}  // namespace rueda
