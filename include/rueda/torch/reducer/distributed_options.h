// SPDX-License-Identifier: Apache-2.0
// How gradients are reduced.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rueda/torch/compression/communication_hook.h"
#include "rueda/torch/local_sgd/sync_schedule.h"
#include "rueda/types.h"

namespace rueda {

// What becomes of a sparse gradient (of an embedding, say).
//   as_dense       it is made dense, and reduced
//   by_density     it stays sparse in a step in which the ranks together have less than a quarter of its
//                  elements: then these are gathered and added up; else as_dense. The optimizer must be able
//                  to take both (SGD and Adagrad can). In a group, in a fixed order and with adasum:
//                  as_dense.
//   as_sparse      its elements are gathered and added up, however many there are. In a group, in a fixed
//                  order, with adasum, and where a rank has a dense one: travels_dense.
//   travels_dense  it is made dense and reduced; the result is made sparse again
// What is gathered is not for use with join().
enum class SparseGradients { as_dense, by_density, as_sparse, travels_dense };
std::string_view to_string(SparseGradients sparse);

// Gradients that travel as two factors, of `rank` columns and as many rows (PowerSGD): of the parameters,
// seen as matrices of their first dimension and all others, of which that is at most half the bytes; of
// float32 and float64. The result is the same on all ranks, and near the exact one; what it lacks is kept on
// each rank, and added to the next.
struct LowRank {
  int rank = 0;                     // 0: gradients travel whole; 1 to 4 are common
  std::vector<at::Tensor> without;  // parameters whose gradients do so all the same
};

// A plain value, equal on every rank (names too).
struct DistributedOptions {
  std::vector<std::pair<std::string, at::Tensor>> named_parameters;  // names for messages; empty: by position
  // Parameters whose gradients are reduced together, or fail together: a list each; nothing is reduced of one
  // before all of it is there. in_groups() makes n lists of equal length.
  std::vector<std::vector<at::Tensor>> groups;
  // Or sum; or adasum, of each parameter's gradients: learning rates stay those of one rank.
  ReduceOp op = ReduceOp::average;
  // Gradients of n backward passes add up and are reduced once: their mean, or, with sum_passes, their sum.
  int backward_passes_per_step = 1;
  bool sum_passes = false;
  // When ranks synchronise: at every step, less often, or a step later.
  SyncSchedule schedule = {};
  SparseGradients sparse = SparseGradients::as_dense;
  // float32 gradients travel between hosts as fp16 or bf16, at half the bytes; inside a host as they are.
  // topk: each host sends the largest elements of each gradient only, a share of them, and keeps the others
  // for the next step; with schedules that average parameters, of the ways that these have gone.
  Compression compression = Compression::none;
  double compression_share = 0.01;  // of topk: more than 0, at most 1
  // Not with groups, adasum, topk, reduction_order fixed, one_step_late, or schedules that average
  // parameters. `compression` is then of the factors, too.
  LowRank low_rank = {};
  // Gradients travel as a hook of the program's own makes them (communication_hook.h). Not with low_rank,
  // adasum, reduction_order fixed, one_step_late, or schedules that average parameters. With measure_norm the
  // norm is found in a pass of its own.
  CommunicationHookOptions hook = {};
  // Of an average over n ranks: gradients are divided by this before they are summed, and by n / this after:
  // sums of large gradients then fit into fp16.
  double gradient_predivide_factor = 1.0;
  // Gradients on devices get places in memory that NCCL knows (share_window_async), from the second step on:
  // they are not packed, and reduced where they are. One that autograd makes elsewhere is copied there on the
  // device. As much device memory more as those gradients take, until the job ends or nobody holds it. Ranks
  // call step() of several optimizers in one order. Not for use with RUEDA_FULL_JOIN.
  bool device_window = false;
  // The norm of all gradients is found while they are reduced (grad_norm, clip_grad_norm_), not in a pass of
  // its own. Not with reduction_order fixed, where it would depend on how data moves.
  bool measure_norm = false;
  // fixed: as many gradients in all, of passes times ranks, give the same bits however they are shared out: 4
  // passes on one rank, 2 on two, one on four. Passes and ranks must be powers of two; between the passes of
  // a step .grad is undefined. RUEDA_REDUCTION_ORDER=fixed does the same.
  ReductionOrder reduction_order = ReductionOrder::any;
  // true: each gradient is reduced as soon as it is there, while the backward pass runs on; false: all in
  // synchronize(). Unset: as with true where something else than this rank's busy cores does the work (a
  // network, more cores than torch threads), else all when the backward pass ends.
  std::optional<bool> overlap = std::nullopt;
  // The last backward pass of a step returns when its gradients are reduced, so that what looks at .grad next
  // (a clip, a mixed-precision scaler) sees the reduced ones without synchronize(). backward() is then
  // collective, and throws what fails: ranks do as many passes, and the same between them and step(). A
  // further pass before step() is reduced, too: its gradients add to the reduced ones. For schedules
  // every_step and accumulate; others do not.
  bool synchronize_in_backward = false;
};

// The parameters in so many groups, in order, of equal length where that is possible.
std::vector<std::vector<at::Tensor>> in_groups(const std::vector<at::Tensor>& parameters, std::size_t groups);

}  // namespace rueda
