// SPDX-License-Identifier: Apache-2.0
// Options for the reduction of gradients.
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

// Selects the treatment of sparse gradients, such as those of an embedding.
//
//   as_dense       A sparse gradient becomes dense before its reduction.
//   by_density     If all ranks together have fewer than a quarter of the elements, these are gathered
//                  and added up. Otherwise as as_dense. The optimizer must accept both forms (SGD and
//                  Adagrad do). In a group, in a fixed order and with adasum: as_dense.
//   as_sparse      The elements are always gathered and added up. In a group, in a fixed order, with adasum,
//                  and if a rank has a dense one: travels_dense.
//   travels_dense  A sparse gradient is reduced as a dense one. The result becomes sparse again.
//
// Gathered gradients cannot be used with join().
enum class SparseGradients { as_dense, by_density, as_sparse, travels_dense };
std::string_view to_string(SparseGradients sparse);

// Options of PowerSGD, which sends a gradient as two factors of `rank` columns each. It treats a parameter
// as a matrix of its first dimension and all others. It applies to parameters of float32 and float64 whose
// factors have at most half the bytes. The result is approximate, and equal on all ranks. Each rank keeps
// the difference and adds it to its next gradient.
struct LowRank {
  int rank = 0;                     // number of columns; 0: no factors; 1 to 4 are common
  std::vector<at::Tensor> without;  // parameters without factors
};

// Options of DistributedOptimizer, ShardedOptimizer and GradientReducer. A plain value, equal on every rank,
// including the names.
struct DistributedOptions {
  std::vector<std::pair<std::string, at::Tensor>> named_parameters;  // names in messages; empty: by position
  // Lists of parameters. The gradients of a list are reduced together, or fail together, when all of them
  // are complete. in_groups() makes n lists of equal length.
  std::vector<std::vector<at::Tensor>> groups;
  // average, sum or adasum. adasum combines the gradients of each parameter, and keeps the learning rate of
  // one rank.
  ReduceOp op = ReduceOp::average;
  // Gradients of n backward passes add up before one reduction. The result is their mean, or their sum with
  // sum_passes.
  int backward_passes_per_step = 1;
  bool sum_passes = false;
  // Ranks synchronise at every step, less often, or one step later.
  SyncSchedule schedule = {};
  // Treatment of sparse gradients.
  SparseGradients sparse = SparseGradients::as_dense;
  // fp16 and bf16 halve the bytes of float32 gradients between hosts. Inside a host nothing is compressed.
  // topk sends only the largest elements of each gradient between hosts, and keeps the others for the next
  // step. With schedules that average parameters it applies to the movement of the parameters.
  Compression compression = Compression::none;
  double compression_share = 0.01;  // share of elements for topk: more than 0, at most 1
  // PowerSGD. Not with groups, adasum, topk, reduction_order fixed, one_step_late, or schedules that
  // average parameters. `compression` also applies to the factors.
  LowRank low_rank = {};
  // Your own reduction (communication_hook.h). Not with low_rank, adasum, reduction_order fixed,
  // one_step_late, or schedules that average parameters. With measure_norm a further pass computes the
  // norm.
  CommunicationHookOptions hook = {};
  // For an average over n ranks, gradients are divided by this factor f before the sum, and by n / f after
  // it. So sums of large gradients fit into fp16.
  double gradient_predivide_factor = 1.0;
  // Gradients on devices get slots in memory that NCCL knows (share_window_async), from the second step
  // on. Then reductions need no packing. A gradient outside of its slot is copied there on the device.
  // This takes as much device memory as the gradients, until the job ends and nobody holds it. Ranks call
  // step() of several optimizers in one order. Not for use with RUEDA_FULL_JOIN.
  bool device_window = false;
  // The reductions also compute the norm of all gradients, so grad_norm and clip_grad_norm_ need no further
  // pass. Not with reduction_order fixed, since this norm depends on the transfer of the data.
  bool measure_norm = false;
  // Of a ShardedOptimizer that an elastic::State keeps: so many further ranks keep a copy of each part, and
  // step it. So as many ranks with neighbouring numbers may be lost at the same time. Each copy takes the
  // memory and the time of a part. 0: the loss of any rank ends the job.
  int part_copies = 1;
  // fixed gives the same bits for the same total number of gradients, passes times ranks: 4 passes on one
  // rank, 2 on two, or one on four. Passes and ranks must be powers of two. Between the passes of a step
  // .grad is undefined. RUEDA_REDUCTION_ORDER=fixed does the same.
  ReductionOrder reduction_order = ReductionOrder::any;
  // true reduces each gradient as soon as it is complete, during the backward pass. false reduces all in
  // synchronize(). Unset, it is as true if a network or idle cores do the work. Otherwise all are reduced
  // at the end of the backward pass.
  std::optional<bool> overlap = std::nullopt;
  // The last backward pass of a step returns after its reductions. So code that reads .grad next, such as a
  // gradient scaler, needs no synchronize(). backward() is then collective and throws errors of reductions.
  // All ranks run equally many passes, in the same order between them and step(). The gradients of a
  // further pass before step() are reduced and added. Only for schedules every_step and accumulate.
  bool synchronize_in_backward = false;
};

// Divides the parameters into `groups` lists, in order, of lengths that differ by at most one.
std::vector<std::vector<at::Tensor>> in_groups(const std::vector<at::Tensor>& parameters, std::size_t groups);

}  // namespace rueda
