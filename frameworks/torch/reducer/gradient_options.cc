// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/reducer/gradient_options.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <set>
#include <unordered_map>

#include "core/base/error.h"
#include "core/base/operation_traits.h"
#include "frameworks/torch/compression/powersgd.h"

namespace rueda {
namespace {

using Identity = const void*;

// Of the cores that this process may run on, those that are not for the other ranks of the host. Taken for
// its own only where they are too few to be for all.
int cores_of_a_rank(Rank local_size) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) return 1;
  const int count = CPU_COUNT(&cores);
  const bool shared = count >= std::int64_t{local_size} * at::get_num_threads() ||
                      count * std::int64_t{local_size} > sysconf(_SC_NPROCESSORS_ONLN);
  return shared ? count / local_size : count;
}

// A count that a fixed order needs to be a power of two.
void check_power_of_two(const char* what, unsigned count, Rank rank) {
  if (std::has_single_bit(count)) return;
  refuse(fmt::format(
      "rank {}: reduction_order fixed needs a power of two of {}, and there are {}; make them {} or "
      "{}, or leave reduction_order (RUEDA_REDUCTION_ORDER) at any",
      rank, what, count, std::bit_floor(count), std::bit_ceil(count)));
}

// The index of each of the parameters.
std::unordered_map<Identity, std::size_t> indices_of(const std::vector<at::Tensor>& parameters) {
  std::unordered_map<Identity, std::size_t> index_of;
  for (std::size_t i = 0; i < parameters.size(); ++i) index_of[identity(parameters[i])] = i;
  return index_of;
}

// Refuses options that exclude a schedule in which gradients are never reduced.
void check_local_steps(const DistributedOptions& options, const Runtime& runtime) {
  std::string what;
  if (options.op != ReduceOp::average) what = fmt::format("op {}", to_string(options.op));
  if (order_of(options, runtime) == ReductionOrder::fixed) what = "reduction_order fixed";
  if (options.gradient_predivide_factor != 1.0) what = "gradient_predivide_factor";
  if (what.empty()) return;
  refuse(
      fmt::format("rank {}: {} is for gradients that are reduced, and with schedule {} parameters are "
                  "averaged instead; leave it out, or choose every_step, accumulate or one_step_late",
                  runtime.topology().rank, what, options.schedule.to_string()));
}

// The option that excludes gradients that a hook reduces; empty: none does.
std::string conflict_with_hook(const DistributedOptions& options, const Runtime& runtime) {
  const SyncSchedule& schedule = options.schedule;
  if (schedule.averages_parameters() || schedule.kind() == SyncSchedule::Kind::one_step_late)
    return fmt::format("schedule {}", schedule.to_string());
  if (order_of(options, runtime) == ReductionOrder::fixed) return "reduction_order fixed";
  return options.op == ReduceOp::adasum ? "op adasum" : "";
}

void check_hook(const DistributedOptions& options, const Runtime& runtime) {
  const CommunicationHookOptions& hook = options.hook;
  const Rank rank = runtime.topology().rank;
  if (hook.name.empty() == (hook.make != nullptr)) {
    refuse(fmt::format("rank {}: hook '{}' has {}; give both a name and what makes it, or neither", rank,
                       hook.name, hook.make ? "no name" : "nothing that makes it"));
  }
  if (!hook.make) return;
  const std::string what = options.low_rank.rank != 0 ? fmt::format("low_rank.rank {}", options.low_rank.rank)
                                                      : conflict_with_hook(options, runtime);
  if (what.empty()) return;
  refuse(fmt::format("rank {}: the hook '{}' cannot be together with {}; leave one of the two out", rank,
                     hook.name, what));
}

// Refuses options that exclude gradients that travel as factors and leave a rest for the next
// step.
void check_low_rank(const DistributedOptions& options, const Runtime& runtime) {
  const Rank rank = runtime.topology().rank;
  if (options.low_rank.rank < 0) {
    refuse(fmt::format(
        "rank {}: low_rank.rank is {}; it must be at least 1, or 0 for gradients that travel whole", rank,
        options.low_rank.rank));
  }
  if (options.low_rank.rank == 0) return;
  std::string what = conflict_with_hook(options, runtime);
  if (what.empty() && options.compression == Compression::topk) what = "compression topk";
  if (what.empty() && !options.groups.empty()) what = "groups";
  if (what.empty()) return;
  refuse(fmt::format(
      "rank {}: low_rank.rank is {}, and gradients that travel as factors cannot be together with {}; "
      "leave one of the two out",
      rank, options.low_rank.rank, what));
}

}  // namespace

const void* identity(const at::Tensor& tensor) { return tensor.unsafeGetTensorImpl(); }

ReductionOrder order_of(const DistributedOptions& options, const Runtime& runtime) {
  const bool fixed =
      options.reduction_order == ReductionOrder::fixed || runtime.reduction_order() == ReductionOrder::fixed;
  return fixed ? ReductionOrder::fixed : ReductionOrder::any;
}

Reduction reduction_of(const DistributedOptions& options, const Runtime& runtime) {
  const double divide_by = options.gradient_predivide_factor;
  return {options.op,
          1.0 / divide_by,
          options.sum_passes ? divide_by : divide_by / passes_of(options),
          order_of(options, runtime),
          options.compression,
          options.measure_norm && !options.schedule.averages_parameters() && !options.hook.make &&
              order_of(options, runtime) == ReductionOrder::any,
          options.compression_share};
}

std::string_view to_string(SparseGradients sparse) {
  switch (sparse) {
    case SparseGradients::as_dense: return "as_dense";
    case SparseGradients::by_density: return "by_density";
    case SparseGradients::as_sparse: return "as_sparse";
    case SparseGradients::travels_dense: return "travels_dense";
  }
  return "unknown";
}

std::string describe(const DistributedOptions& options, const Runtime& runtime) {
  return fmt::format(
      "op {}, schedule {}, sparse {}, device_window {}, measure_norm {}, backward_passes_per_step {}, "
      "sum_passes "
      "{}, "
      "compression {}, compression_share {}, low_rank {}, hook '{}', "
      "gradient_predivide_factor {} and reduction_order {}",
      to_string(options.op), options.schedule.to_string(), to_string(options.sparse), options.device_window,
      options.measure_norm, options.backward_passes_per_step, options.sum_passes,
      to_string(options.compression),
      options.compression == Compression::topk ? options.compression_share : 1.0, options.low_rank.rank,
      options.hook.name, options.gradient_predivide_factor, to_string(order_of(options, runtime)));
}

int passes_of(const DistributedOptions& options) {
  const bool accumulates = options.schedule.kind() == SyncSchedule::Kind::accumulate;
  return options.backward_passes_per_step * (accumulates ? static_cast<int>(options.schedule.steps()) : 1);
}

const DistributedOptions& checked(const DistributedOptions& options, const Scope& scope) {
  const Runtime& runtime = scope.runtime();
  const Rank rank = runtime.topology().rank;
  if (!scope.included()) {
    refuse(fmt::format(
        "rank {}: gradients of process set {} are reduced by its members, {}, and this rank is none", rank,
        scope.process_set(), to_string(*scope.ranks())));
  }
  if (options.op != ReduceOp::average && options.op != ReduceOp::sum && options.op != ReduceOp::adasum) {
    refuse(fmt::format("rank {}: gradients cannot be reduced by {}; choose average, sum or adasum", rank,
                       to_string(options.op)));
  }
  if (options.op == ReduceOp::adasum && order_of(options, runtime) == ReductionOrder::fixed) {
    refuse(fmt::format(
        "rank {}: with adasum the number of ranks matters whatever the order; choose average or sum "
        "for reduction_order fixed, or the order any",
        rank));
  }
  if (options.compression == Compression::topk && !is_share(options.compression_share)) {
    refuse(fmt::format("rank {}: compression_share is {}; it must be greater than 0 and at most 1", rank,
                       options.compression_share));
  }
  const double divide_by = options.gradient_predivide_factor;
  if (!std::isfinite(divide_by) || divide_by <= 0) {
    refuse(
        fmt::format("rank {}: gradient_predivide_factor is {}; it must be greater than 0", rank, divide_by));
  }
  if (divide_by != 1.0 && options.op != ReduceOp::average) {
    refuse(
        fmt::format("rank {}: gradient_predivide_factor is {}, which splits the division of an average, but "
                    "op is {}; leave "
                    "it at 1, or choose average",
                    rank, divide_by, to_string(options.op)));
  }
  if (options.backward_passes_per_step < 1) {
    refuse(fmt::format("rank {}: backward_passes_per_step is {}; it must be at least 1", rank,
                       options.backward_passes_per_step));
  }
  if (options.schedule.kind() == SyncSchedule::Kind::accumulate &&
      options.backward_passes_per_step > std::numeric_limits<int>::max() / options.schedule.steps()) {
    refuse(fmt::format(
        "rank {}: {} backward passes a step and schedule {} make too many passes for one reduction; "
        "choose fewer",
        rank, options.backward_passes_per_step, options.schedule.to_string()));
  }
  check_low_rank(options, runtime);
  check_hook(options, runtime);
  if (options.schedule.averages_parameters()) check_local_steps(options, runtime);
  if (order_of(options, runtime) == ReductionOrder::fixed) {
    check_power_of_two("backward passes per step", static_cast<unsigned>(passes_of(options)), rank);
    check_power_of_two("ranks", static_cast<unsigned>(scope.size()), rank);
  }
  return options;
}

const DistributedOptions& checked_for_shards(const DistributedOptions& options, const Runtime& runtime) {
  const SyncSchedule& schedule = options.schedule;
  if (options.sparse != SparseGradients::as_dense) {
    refuse(fmt::format(
        "rank {}: a ShardedOptimizer with sparse gradients {}: it steps parts of dense ones; choose "
        "as_dense, or a DistributedOptimizer",
        runtime.topology().rank, to_string(options.sparse)));
  }
  if (!schedule.averages_parameters() && schedule.kind() != SyncSchedule::Kind::one_step_late) return options;
  refuse(
      fmt::format("rank {}: a ShardedOptimizer with schedule {}: its parameters are one for all ranks, which "
                  "step parts of "
                  "them together. Choose every_step or accumulate, or a DistributedOptimizer",
                  runtime.topology().rank, schedule.to_string()));
}

// Inside a host a reduction is work for the very cores that run the backward pass, and puts its data out of
// their caches.
Begin begin_of_reductions(const DistributedOptions& options, const Runtime& runtime) {
  if (options.schedule.averages_parameters()) return Begin::in_synchronize;  // never, that is
  if (options.overlap) return *options.overlap ? Begin::as_they_come : Begin::in_synchronize;
  const Topology& topology = runtime.topology();
  const bool on_one_host = topology.local_size == topology.size && runtime.tensor_memory() != nullptr;
  const bool idle_cores = cores_of_a_rank(topology.local_size) > at::get_num_threads();
  return on_one_host && !idle_cores ? Begin::after_the_pass : Begin::as_they_come;
}

bool synchronizes_in_backward(const DistributedOptions& options) {
  const SyncSchedule::Kind kind = options.schedule.kind();
  return options.synchronize_in_backward &&
         (kind == SyncSchedule::Kind::every_step || kind == SyncSchedule::Kind::accumulate);
}

std::vector<at::Tensor> without_repetitions(const std::vector<at::Tensor>& parameters) {
  std::set<Identity> seen;
  std::vector<at::Tensor> unique;
  for (const at::Tensor& parameter : parameters) {
    if (seen.insert(identity(parameter)).second) unique.push_back(parameter);
  }
  return unique;
}

std::vector<std::vector<at::Tensor>> in_groups(const std::vector<at::Tensor>& parameters,
                                               std::size_t groups) {
  std::vector<std::vector<at::Tensor>> lists(std::min(groups, parameters.size()));
  for (std::size_t i = 0; i < parameters.size() && groups > 0; ++i)
    lists[i * lists.size() / parameters.size()].push_back(parameters[i]);
  return lists;
}

std::vector<std::optional<std::size_t>> groups_of(const std::vector<at::Tensor>& parameters,
                                                  const DistributedOptions& options, Rank rank) {
  const auto index_of = indices_of(parameters);
  std::vector<std::optional<std::size_t>> groups(parameters.size());
  for (std::size_t group = 0; group < options.groups.size(); ++group) {
    for (const at::Tensor& member : options.groups[group]) {
      const auto found = index_of.find(identity(member));
      if (found == index_of.end()) {
        refuse(
            fmt::format("rank {}: group {} has a tensor that is no parameter of this optimizer; name only "
                        "those that it was "
                        "given",
                        rank, group));
      }
      if (groups[found->second]) {
        refuse(
            fmt::format("rank {}: parameter {} is in group {} and in group {}; give each parameter one group",
                        rank, found->second, *groups[found->second], group));
      }
      groups[found->second] = group;
    }
  }
  return groups;
}

std::vector<ChosenHook> hooks_of(const std::vector<at::Tensor>& parameters, const DistributedOptions& options,
                                 Rank rank) {
  const LowRank& low_rank = options.low_rank;
  const CommunicationHookOptions& own = options.hook;
  std::vector<ChosenHook> hooks(parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (own.make && (!own.applies || own.applies(parameters[i]))) {
      hooks[i] = {fmt::format(" by the hook '{}'", own.name), own.make};
    } else if (pays_at_rank(parameters[i], low_rank.rank)) {
      hooks[i] = {fmt::format(" as factors of rank {}", low_rank.rank), powersgd_hook(low_rank.rank)};
    }
  }
  const auto index_of = indices_of(parameters);
  for (const at::Tensor& parameter : low_rank.without) {
    const auto found = index_of.find(identity(parameter));
    if (found == index_of.end()) {
      refuse(fmt::format(
          "rank {}: low_rank.without has a tensor that is no parameter of this optimizer; name only those "
          "that it was given",
          rank));
    }
    hooks[found->second] = {};
  }
  return hooks;
}

std::vector<std::string> names_of(const std::vector<at::Tensor>& parameters,
                                  const DistributedOptions& options, Rank rank) {
  const auto index_of = indices_of(parameters);
  std::vector<std::string> names(parameters.size());
  std::set<std::string> used;
  for (const auto& [name, tensor] : options.named_parameters) {
    const auto found = index_of.find(identity(tensor));
    if (found == index_of.end()) {
      refuse(fmt::format(
          "rank {}: named_parameters has '{}', which is no parameter of this optimizer; name only those "
          "that it was given",
          rank, name));
    }
    if (name.empty() || !used.insert(name).second) {
      refuse(
          fmt::format("rank {}: named_parameters has the name '{}' {}; give each parameter a name of its own",
                      rank, name, name.empty() ? "of no letters" : "twice"));
    }
    if (names[found->second].empty()) names[found->second] = name;
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!names[i].empty()) continue;
    names[i] = fmt::format("parameter.{}", i);
    if (!used.insert(names[i]).second) {
      refuse(fmt::format(
          "rank {}: named_parameters gives the name '{}' to another parameter than that position; "
          "choose another",
          rank, names[i]));
    }
  }
  return names;
}

}  // namespace rueda
