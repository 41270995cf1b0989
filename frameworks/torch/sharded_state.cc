// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/sharded_state.h"

#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <sstream>
#include <utility>

#include "frameworks/torch/step_meeting.h"

namespace rueda {
namespace {

using torch::optim::Optimizer;
using torch::serialize::InputArchive;
using torch::serialize::OutputArchive;

constexpr const char* kKind = "rueda_sharded_model";

std::string bytes_of(OutputArchive& archive) {
  std::ostringstream stream;
  archive.save_to(stream);
  return std::move(stream).str();
}

// What an optimizer's state, or a group's options, write into an archive.
template <class Saves>
SavedValues values_of(const Saves& saves) {
  OutputArchive archive;
  saves.serialize(archive);
  const std::string bytes = bytes_of(archive);
  InputArchive written;
  written.load_from(bytes.data(), bytes.size());
  SavedValues values;
  for (const std::string& key : written.keys()) written.read(key, values[key]);
  return values;
}

template <class Loads>
void give_values(Loads& loads, const SavedValues& values) {
  OutputArchive archive;
  for (const auto& [key, value] : values) archive.write(key, value);
  const std::string bytes = bytes_of(archive);
  InputArchive written;
  written.load_from(bytes.data(), bytes.size());
  loads.serialize(written);
}

void write(OutputArchive& archive, const std::string& key, const SavedValues& values) {
  OutputArchive nested(archive.compilation_unit());
  for (const auto& [name, value] : values) nested.write(name, value);
  archive.write(key, nested);
}

SavedValues read_values(InputArchive& archive, const std::string& key) {
  InputArchive nested;
  archive.read(key, nested);
  SavedValues values;
  for (const std::string& name : nested.keys()) nested.read(name, values[name]);
  return values;
}

// The elements in the order in which they lie in memory.
at::Tensor flat(const SavedParameter& saved) {
  return saved.value.as_strided({saved.end - saved.begin}, {1});
}

bool is_of_elements(const c10::IValue& value, const SavedParameter& of) {
  return value.isTensor() && value.toTensor().dim() == 1 && value.toTensor().numel() == of.end - of.begin;
}

// Copies what both have; returns how many elements.
std::int64_t take(SavedParameter& to, const SavedParameter& from) {
  const std::int64_t begin = std::max(to.begin, from.begin), end = std::min(to.end, from.end);
  if (to.name != from.name || begin >= end) return 0;
  if (to.elements != from.elements || from.value.numel() != from.end - from.begin) {
    refuse(fmt::format("what was saved of parameter '{}' is of {} elements, and it has {}", to.name,
                       from.elements, to.elements));
  }
  auto copy = [&](const at::Tensor& into, const at::Tensor& out_of) {
    into.narrow(0, begin - to.begin, end - begin).copy_(out_of.narrow(0, begin - from.begin, end - begin));
  };
  copy(flat(to), flat(from));
  for (const auto& [key, value] : from.state) {
    if (!is_of_elements(value, from)) {
      to.state[key] = value;
      continue;
    }
    const at::Tensor& part = value.toTensor();
    const auto [place, fresh] = to.state.try_emplace(key);
    if (fresh) place->second = at::zeros({to.end - to.begin}, part.options());
    copy(place->second.toTensor(), part);
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

// The pieces of a unit that this rank has.
std::vector<SavedParameter> pieces_of(const ShardedUnit& unit) {
  std::vector<SavedParameter> pieces;
  for (const ShardedUnit::Piece& piece : unit.pieces()) {
    const ShardedUnit::Parameter& parameter = unit.parameters()[piece.parameter];
    pieces.push_back(
        {parameter.name, piece.begin, piece.end, parameter.tensor.numel(), piece.leaf.detach(), {}});
  }
  return pieces;
}

SavedModel saved_part_of(const ShardedUnit& unit, const Optimizer& optimizer) {
  SavedModel saved{.parameters = pieces_of(unit)};
  for (std::size_t i = 0; i < saved.parameters.size(); ++i) {
    const auto state = optimizer.state().find(unit.pieces()[i].leaf.unsafeGetTensorImpl());
    if (state != optimizer.state().end()) saved.parameters[i].state = values_of(*state->second);
  }
  return saved;
}

std::vector<SavedValues> saved_groups(const Optimizer& optimizer) {
  std::vector<SavedValues> groups;
  for (const auto& group : optimizer.param_groups()) groups.push_back(values_of(group.options()));
  return groups;
}

// The unit's parameters, to be filled.
std::vector<SavedParameter> whole_parameters(const ShardedUnit& unit) {
  std::vector<SavedParameter> whole;
  for (const ShardedUnit::Parameter& parameter : unit.parameters()) {
    const at::Tensor& tensor = parameter.tensor;
    at::Tensor value =
        at::empty_strided(tensor.sizes(), tensor.strides(), at::TensorOptions(tensor.scalar_type()));
    whole.push_back({parameter.name, 0, tensor.numel(), tensor.numel(), std::move(value), {}});
  }
  return whole;
}

SavedModel read_bytes(const char* bytes, std::size_t size) {
  InputArchive archive;
  archive.load_from(bytes, size);
  return read_saved_model(archive);
}

void give_states(ShardedUnits& units, Optimizer& optimizer, const MakeState& make_state,
                 const std::vector<SavedParameter>& parts) {
  auto options_of = [&](const at::Tensor& leaf) -> const torch::optim::OptimizerOptions* {
    for (const auto& group : optimizer.param_groups()) {
      if (std::ranges::any_of(group.params(), [&](const at::Tensor& each) { return each.is_same(leaf); }))
        return &group.options();
    }
    return nullptr;
  };
  optimizer.state().clear();
  std::size_t index = 0;
  for (const auto& unit : units.units()) {
    for (const ShardedUnit::Piece& piece : unit->pieces()) {
      const SavedParameter& saved = parts[index++];
      const torch::optim::OptimizerOptions* options = options_of(piece.leaf);
      if (saved.state.empty() || options == nullptr) continue;
      if (auto state = make_state(piece.leaf, *options)) {
        give_values(*state, saved.state);
        optimizer.state()[piece.leaf.unsafeGetTensorImpl()] = std::move(state);
      }
    }
  }
}

void give_groups(Optimizer& optimizer, const std::vector<SavedValues>& groups, Rank rank) {
  if (groups.size() != optimizer.param_groups().size()) {
    refuse(fmt::format("rank {}: {} parameter groups were saved, and there are {}", rank, groups.size(),
                       optimizer.param_groups().size()));
  }
  for (std::size_t i = 0; i < groups.size(); ++i)
    give_values(optimizer.param_groups()[i].options(), groups[i]);
}

}  // namespace

void write(OutputArchive& archive, const SavedModel& saved) {
  archive.write(kKind, c10::IValue(static_cast<std::int64_t>(saved.parameters.size())));
  archive.write("groups", c10::IValue(static_cast<std::int64_t>(saved.groups.size())));
  for (std::size_t i = 0; i < saved.parameters.size(); ++i) {
    const SavedParameter& parameter = saved.parameters[i];
    OutputArchive nested(archive.compilation_unit());
    nested.write("name", c10::IValue(parameter.name));
    nested.write("begin", c10::IValue(parameter.begin));
    nested.write("end", c10::IValue(parameter.end));
    nested.write("elements", c10::IValue(parameter.elements));
    nested.write("value", parameter.value, /*is_buffer=*/true);
    write(nested, "state", parameter.state);
    archive.write(fmt::format("parameters/{}", i), nested);
  }
  for (std::size_t i = 0; i < saved.groups.size(); ++i)
    write(archive, fmt::format("groups/{}", i), saved.groups[i]);
}

SavedModel read_saved_model(InputArchive& archive) {
  c10::IValue parameters, groups;
  if (!archive.try_read(kKind, parameters) || !archive.try_read("groups", groups))
    refuse("this archive is not of a ShardedModel");
  SavedModel saved;
  for (std::int64_t i = 0; i < parameters.toInt(); ++i) {
    InputArchive nested;
    archive.read(fmt::format("parameters/{}", i), nested);
    c10::IValue name, begin, end, elements;
    nested.read("name", name);
    nested.read("begin", begin);
    nested.read("end", end);
    nested.read("elements", elements);
    SavedParameter& parameter = saved.parameters.emplace_back(
        SavedParameter{name.toStringRef(), begin.toInt(), end.toInt(), elements.toInt(), {}, {}});
    nested.read("value", parameter.value, /*is_buffer=*/true);
    parameter.state = read_values(nested, "state");
  }
  for (std::int64_t i = 0; i < groups.toInt(); ++i)
    saved.groups.push_back(read_values(archive, fmt::format("groups/{}", i)));
  return saved;
}

SavedModel saved_part(ShardedUnits& units, const Optimizer& optimizer) {
  SavedModel saved{.groups = saved_groups(optimizer)};
  for (const auto& unit : units.units())
    std::ranges::move(saved_part_of(*unit, optimizer).parameters, std::back_inserter(saved.parameters));
  return saved;
}

SavedModel gather_saved(ShardedUnits& units, const Optimizer& optimizer, Rank root) {
  const at::NoGradGuard no_grad;
  const bool is_root = units.runtime().topology().rank == root;
  SavedModel saved;
  for (const auto& unit : units.units()) {
    OutputArchive archive;
    write(archive, saved_part_of(*unit, optimizer));
    const std::string own = bytes_of(archive);
    std::vector<std::int64_t> size{static_cast<std::int64_t>(own.size())};
    Handle sizes = allgather_async(units.next_name(), view(size), units.runtime());
    const ConstTensorView bytes(own.data(), DataType::uint8, {size.front()});
    Handle parts = allgather_async(units.next_name(), bytes, units.runtime());
    sizes.wait();
    parts.wait();
    if (!is_root) continue;
    std::vector<SavedParameter> whole = whole_parameters(*unit);
    const char* place = static_cast<const char*>(parts.output().data);
    const auto* lengths = static_cast<const std::int64_t*>(sizes.output().data);
    for (Rank from = 0; from < units.runtime().topology().size; ++from) {
      for (const SavedParameter& piece :
           read_bytes(place, static_cast<std::size_t>(lengths[from])).parameters) {
        for (SavedParameter& parameter : whole) take(parameter, piece);
      }
      place += lengths[from];
    }
    std::ranges::move(whole, std::back_inserter(saved.parameters));
  }
  if (is_root) saved.groups = saved_groups(optimizer);
  return saved;
}

void load_saved(ShardedUnits& units, Optimizer& optimizer, const MakeState& make_state,
                const std::function<bool(SavedModel&)>& next) {
  const at::NoGradGuard no_grad;
  const Rank rank = units.runtime().topology().rank;
  units.release_all();
  meet_before(units.next_name(), "load", "a ShardedModel", {}, units.runtime());  // nobody reads any more
  Status own;
  auto attempt = [&](const auto& action) {
    try {
      if (own.ok()) action();
    } catch (const std::exception& error) {
      own = Status::invalid_argument(error.what());
    }
  };
  std::vector<SavedParameter> parts;
  for (const auto& unit : units.units()) std::ranges::move(pieces_of(*unit), std::back_inserter(parts));
  std::vector<std::int64_t> taken(parts.size());
  std::vector<SavedValues> groups;
  for (bool more = true; std::exchange(more, false);) {
    SavedModel given;
    try {
      more = next(given);  // also after a failure: the others go on
    } catch (const std::exception& error) {
      if (own.ok()) own = Status::invalid_argument(error.what());
    }
    attempt([&] {
      for (std::size_t i = 0; i < parts.size(); ++i) {
        for (const SavedParameter& saved : given.parameters) taken[i] += take(parts[i], saved);
      }
      if (more) groups = std::move(given.groups);
    });
  }
  attempt([&] {
    for (std::size_t i = 0; i < parts.size(); ++i) check_whole(parts[i], taken[i], rank);
    give_groups(optimizer, groups, rank);
    give_states(units, optimizer, make_state, parts);
  });
  units.mark_parameters_changed();
  meet_before(units.next_name(), "use", "a ShardedModel that was loaded", own, units.runtime());
}

// The root sends each unit's parameters whole, and every rank takes its pieces.
void scatter_saved(ShardedUnits& units, Optimizer& optimizer, const MakeState& make_state,
                   const SavedModel& saved, Rank root) {
  const bool is_root = units.runtime().topology().rank == root;
  auto bytes_for = [&](const ShardedUnit& unit) {
    SavedModel part{.groups = saved.groups};
    for (const ShardedUnit::Parameter& parameter : unit.parameters()) {
      for (const SavedParameter& each : saved.parameters) {
        if (each.name == parameter.name) part.parameters.push_back(each);
      }
    }
    OutputArchive archive;
    write(archive, part);
    return bytes_of(archive);
  };
  std::size_t index = 0;
  load_saved(units, optimizer, make_state, [&](SavedModel& given) {
    if (index == units.units().size()) return false;
    const ShardedUnit& unit = *units.units()[index++];
    std::string bytes = is_root ? bytes_for(unit) : std::string();
    std::vector<std::int64_t> size{static_cast<std::int64_t>(bytes.size())};
    broadcast_async(units.next_name(), view(size), view(size), root, units.runtime()).wait();
    bytes.resize(static_cast<std::size_t>(size.front()));
    const TensorView all = view(std::span(reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()));
    broadcast_async(units.next_name(), all, all, root, units.runtime()).wait();
    given = read_bytes(bytes.data(), bytes.size());
    return true;
  });
}

}  // namespace rueda
