// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/sharding/state_dict.h"

#include <ATen/ops/empty_strided.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "core/engine/runtime.h"
#include "frameworks/torch/sharding/step_barrier.h"

namespace rueda {
namespace {

using torch::optim::Optimizer;

// The pieces of a unit that this rank has: its own, or also its copies of others.
std::vector<SavedParameter> pieces_of(const FlatParameter& unit, bool copies) {
  std::vector<SavedParameter> pieces;
  for (const FlatParameter::Piece& piece : unit.pieces()) {
    if (piece.part != 0 && !copies) break;
    const FlatParameter::Parameter& parameter = unit.parameters()[piece.parameter];
    pieces.push_back(
        {parameter.name, piece.begin, piece.end, parameter.tensor.numel(), piece.leaf.detach(), {}});
  }
  return pieces;
}

SavedModel saved_part_of(const FlatParameter& unit, const Optimizer& optimizer) {
  SavedModel saved{.parameters = pieces_of(unit, /*copies=*/false)};
  for (std::size_t i = 0; i < saved.parameters.size(); ++i) {
    saved.parameters[i].value = saved.parameters[i].value.cpu();
    saved.parameters[i].state = saved_state_of({.leaf = unit.pieces()[i].leaf}, optimizer).state;
  }
  return saved;
}

// The unit's parameters, to be filled.
std::vector<SavedParameter> whole_parameters(const FlatParameter& unit) {
  std::vector<SavedParameter> whole;
  for (const FlatParameter::Parameter& parameter : unit.parameters()) {
    const at::Tensor& tensor = parameter.tensor;
    at::Tensor value =
        at::empty_strided(tensor.sizes(), tensor.strides(), at::TensorOptions(tensor.scalar_type()));
    whole.push_back({parameter.name, 0, tensor.numel(), tensor.numel(), std::move(value), {}});
  }
  return whole;
}

std::vector<at::Tensor> leaves_of(UnitScheduler& units) {
  std::vector<at::Tensor> leaves;
  for (const auto& unit : units.units()) {
    for (const FlatParameter::Piece& piece : unit->pieces()) leaves.push_back(piece.leaf);
  }
  return leaves;
}

}  // namespace

SavedModel saved_part(UnitScheduler& units, const Optimizer& optimizer) {
  SavedModel saved{.groups = saved_groups(optimizer)};
  for (const auto& unit : units.units())
    std::ranges::move(saved_part_of(*unit, optimizer).parameters, std::back_inserter(saved.parameters));
  return saved;
}

SavedModel gather_saved(UnitScheduler& units, const Optimizer& optimizer, Rank root) {
  const at::NoGradGuard no_grad;
  const bool is_root = units.runtime().topology().rank == root;
  units.recoverable().check_divided();
  SavedModel saved;
  for (const auto& unit : units.units()) {
    std::vector<SavedParameter> whole;
    if (is_root) whole = whole_parameters(*unit);
    put_together(whole, saved_part_of(*unit, optimizer), units.next_name(), root, units.runtime());
    std::ranges::move(whole, std::back_inserter(saved.parameters));
  }
  if (is_root) saved.groups = saved_groups(optimizer);
  return saved;
}

void load_saved(UnitScheduler& units, Optimizer& optimizer, const MakeState& make_state,
                const std::function<bool(SavedModel&)>& next) {
  const at::NoGradGuard no_grad;
  const Rank rank = units.runtime().topology().rank;
  const bool alone = !units.recoverable().divided();
  units.release_all();
  if (!alone) {  // nobody reads any more
    units.recoverable().begin_load(saved_states(optimizer));
    barrier_before(units.next_name(), "load", "a ShardedModel", {}, units.runtime());
  }
  Status own;
  auto attempt = [&](const auto& action) {
    try {
      if (own.ok()) action();
    } catch (const std::exception& error) {
      own = Status::invalid_argument(error.what());
    }
  };
  std::vector<SavedParameter> parts;
  for (const auto& unit : units.units())
    std::ranges::move(pieces_of(*unit, /*copies=*/true), std::back_inserter(parts));
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
    give_states(optimizer, make_state, leaves_of(units), parts);
  });
  units.mark_parameters_changed();
  if (alone) return throw_if_error(own);
  barrier_before(units.next_name(), "use", "a ShardedModel that was loaded", own, units.runtime());
  units.recoverable().end_load();
}

// The root sends each unit's parameters whole, and every rank takes its pieces.
void scatter_saved(UnitScheduler& units, Optimizer& optimizer, const MakeState& make_state,
                   const SavedModel& saved, Rank root) {
  if (!units.recoverable().divided()) {
    bool given = false;
    return load_saved(units, optimizer, make_state, [&](SavedModel& own) {
      if (std::exchange(given, true)) return false;
      own = saved;
      return true;
    });
  }
  const bool is_root = units.runtime().topology().rank == root;
  auto bytes_for = [&](const FlatParameter& unit) {
    SavedModel part{.groups = saved.groups};
    for (const FlatParameter::Parameter& parameter : unit.parameters()) {
      for (const SavedParameter& each : saved.parameters) {
        if (each.name == parameter.name) part.parameters.push_back(each);
      }
    }
    return bytes_of(part);
  };
  std::size_t index = 0;
  load_saved(units, optimizer, make_state, [&](SavedModel& given) {
    if (index == units.units().size()) return false;
    const FlatParameter& unit = *units.units()[index++];
    std::string bytes = is_root ? bytes_for(unit) : std::string();
    std::vector<std::int64_t> size{static_cast<std::int64_t>(bytes.size())};
    broadcast_async(units.next_name(), view(size), view(size), root, units.runtime()).wait();
    bytes.resize(static_cast<std::size_t>(size.front()));
    const TensorView all = view(std::span(reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()));
    broadcast_async(units.next_name(), all, all, root, units.runtime()).wait();
    given = saved_of(bytes);
    return true;
  });
}

}  // namespace rueda
