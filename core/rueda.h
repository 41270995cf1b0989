// SPDX-License-Identifier: Apache-2.0
// The front door: start, ask who you are, submit operations, wait for them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/tensor_view.h"
#include "core/base/topology.h"
#include "core/engine/operations/handle.h"
#include "core/engine/runtime.h"
#include "core/process_set.h"

// Everything that programs call.
namespace rueda {

// Starts the default Runtime from `parts` (ops/setup/init.h has the init() without arguments that users
// call). A second call before shutdown() does nothing; with other process sets it throws InvalidArgument.
// Throws PeerLost naming the ranks that did not come within start_timeout, which is final for the process: a
// later init() fails with the same words. Throws Mismatch and InvalidArgument, in the same words on every
// rank, for process sets in which ranks differ or that are impossible, and then may be called again.
void init(RuntimeComponents parts);

// Ends the default Runtime once every rank has called shutdown() and all submitted operations are complete.
// Called at the end of the process if the program did not. Does nothing when not initialized.
void shutdown();

// Whether init() has returned, and shutdown() not yet.
bool is_initialized();
// Why the last job of this process could not go on, which is final; ok if there is no such thing.
Status final_failure();

// Grows with each job that this process begins, by init(). An object may outlive the one it was made in.
std::uint64_t jobs_begun();
// Purpose: names a job of the default Runtime. A value.
struct JobReference {
  std::uint64_t number = 0;      // jobs_begun() in it
  std::vector<Rank> started_as;  // Runtime::started_as()
};
// Throws NotInitialized where there is none.
JobReference present_job();
// `scope`, of that job, or what stands for it in the present one: all ranks, or the set of the same ranks
// that init() was given. Throws NotInitialized where there is none, and where the present job is of other
// processes.
Scope in_present_job(const Scope& scope, const JobReference& job);

// Throws NotInitialized in a child that was forked after init(): it has no background thread, and its
// parent's MPI.
void check_not_forked();

// The Runtime that init() started. Throws NotInitialized before init(), after shutdown() and in a forked
// child.
Runtime& default_runtime();

// Memory for tensors, zeroed, aligned to a cache line at least: where the ranks of this host can work on it
// without a copy (all of them must have theirs there), else ordinary memory. Freed with its last pointer,
// also after shutdown(). Getting it costs some milliseconds a MiB: once a tensor, not once a step. Throws
// BackendError where there is too little memory, naming the size wanted and the remedy.
std::shared_ptr<std::byte> allocate(std::size_t bytes);

// Memory of a device for tensors, not initialised: by NCCL where it has such a function, so that it can work
// there without copies of its own, else ordinary memory of the device. Freed with its last pointer, when
// nobody shares it any more. Getting it stops the device: once a tensor, not once a step. Throws
// InvalidArgument where there is no such device, BackendError where it has too little memory.
std::shared_ptr<std::byte> allocate_on_device(int device, std::size_t bytes);

// Who this process is among all ranks; in a forked child, who its parent is. They throw NotInitialized before
// init() and after shutdown().
Rank rank();
Rank size();
Rank local_rank();  // among the ranks of this host
Rank local_size();
Rank cross_rank();  // among the ranks of equal local_rank, over hosts
Rank cross_size();
bool is_homogeneous();  // every host has the same number of ranks

// How values of several ranks become one: op(x_0 * prescale, x_1 * prescale, ...) * postscale. Of adasum both
// factors scale the result alike, since adasum(c a, c b) = c adasum(a, b).
struct Reduction {
  ReduceOp op = ReduceOp::average;              // of the ranks' values
  double prescale_factor = 1.0;                 // of each value before
  double postscale_factor = 1.0;                // of the result
  ReductionOrder order = ReductionOrder::any;   // RUEDA_REDUCTION_ORDER=fixed makes it fixed everywhere
  Compression compression = Compression::none;  // of float32; others, and adasum, travel as they are
  // Sums up the squares of the result on the way: Handle::share_of_square_sum(), for a norm or to find values
  // that are not finite. Allreduce of floating point only, and the same on all ranks.
  bool measure = false;
  // Of topk: how many of the elements a host sends, of each slice of the tensor that one rank carries to
  // other hosts; more than 0, at most 1, and the same on all ranks. Each costs 8 bytes.
  double compression_share = 0.01;

  void write_to(Request& request) const;  // what travels
};

// Each of these returns at once; `name` pairs this rank's call with those of the other ranks of the scope and
// must not be in flight twice there. Ranks may submit in any order. The memory behind a view stays untouched
// by the caller until the Handle is done. Errors: InvalidArgument here for arguments that cannot mean
// anything; all else from Handle::wait, with the same words on every rank.

// output = reduction over all ranks of `input`. Same shape and dtype everywhere. Pass one view twice for in
// place.
Handle allreduce_async(std::string name, ConstTensorView input, TensorView output, Reduction reduction = {},
                       Scope scope = {});

// Handle::output() = the ranks' inputs one after another along the first dimension, which may differ by rank.
Handle allgather_async(std::string name, ConstTensorView input, Scope scope = {});

// output = rank root's input, everywhere; `input` is read on the root only. Same shape and dtype everywhere.
Handle broadcast_async(std::string name, ConstTensorView input, TensorView output, Rank root,
                       Scope scope = {});

// Rows of `input` go to rank 0, 1, ... in the numbers that `splits` gives (empty: equally). Handle::output()
// = the rows that came, in rank order; Handle::received_splits() = how many came from each rank.
Handle alltoall_async(std::string name, ConstTensorView input, std::vector<std::int64_t> splits = {},
                      Scope scope = {});

// Handle::output() = this rank's share of the rows of the reduction of `input`; the first ranks get the
// remainder.
Handle reducescatter_async(std::string name, ConstTensorView input, Reduction reduction = {},
                           Scope scope = {});

// Several allreduces that are carried out together, or fail together: all ranks give the same number. Output
// i belongs to the operation "name.i". Throws InvalidArgument when inputs and outputs differ in number.
std::vector<Handle> grouped_allreduce_async(const std::string& name, std::span<const ConstTensorView> inputs,
                                            std::span<const TensorView> outputs, Reduction reduction = {},
                                            Scope scope = {});

// Every rank of the scope shares a window on its device, of one size and with the same places; they lay
// gradients out in it, say. From then on an allreduce of a tensor of one of these names works there, without
// packing; where a rank's tensor lies somewhere else, it is copied there and back, unless a Request says that
// it must not be (`elsewhere`, on any rank), or a rank has joined. NCCL is told about the memory where its
// version can be (2.27). Places of names that were shared before are replaced. Done when all have called it;
// where some device cannot, or a rank brings no memory, tensors travel as ever, which the Handle knows
// (takes_window). Ranks that differ get BackendError, in the same words. The memory stays
// until the job ends, or another window is shared when nobody else holds this one on any rank.
Handle share_window_async(DeviceWindow window, int device, Scope scope = {});

// Has `body` capture a graph of a CUDA device: operations on tensors of streams that are being captured there
// are agreed on as ever, but NCCL's calls become a part of the graph, which then runs, any number of times,
// without the host. Called by every rank of the scope, on its `device`; `body` begins and ends the capture
// and waits for all its operations. Ranks then run their graphs equally often, and in the same order beside
// other graphs and operations on devices; what of these was begun before has been waited for. What belongs to
// the host is done once, in `body`. Ranks make a communicator and a buffer for each graph, which stay until
// the job ends; destroy graphs before shutdown(), since NCCL ends no communicator that one holds. Throws what
// `body` throws, and on ranks whose `body` went well BackendError with its words; it, too, where an operation
// was not waited for, or NCCL does not connect the ranks; InvalidArgument where there is no device. Then no
// graph may run. A rank that waits in its `body` for one whose `body` has failed is named as stalled. Of
// graphs that run nothing is agreed on: one that others do not run waits on the device for ever, and nobody
// says so.
void capture(const std::function<void()>& body, int device, Scope scope = {});

// Done when every rank has called it.
Handle barrier_async(Scope scope = {});

// Writes what happens on this rank to `path` as a Chrome trace, for Perfetto or chrome://tracing. Called by
// every rank; rank 0 writes `path`, the others PATH with ".rankN" before the extension. Clocks agree.
// `mark_cycles` adds a mark for each round of the background thread. Throws InvalidArgument when the file
// cannot be written, and when a timeline is being written.
void start_timeline(const std::string& path, bool mark_cycles = false);
// The file is complete when this returns. Rank 0 then makes one file, `path`, out of those of all ranks if it
// can reach them (waiting 1 s at most for ranks that have not stopped); else each rank's stays. Does nothing
// when no timeline is being written.
void stop_timeline();

// What this rank has done so far, in numbers; to_prometheus_text() of it is text.
MetricsSnapshot metrics();

// A one-dimensional view of `values`.
template <class T>
TensorView view(std::span<T> values);
template <class T>
TensorView view(std::vector<T>& values) {
  return view(std::span<T>(values));
}

// The DataType of a C++ type, named as the standard library names such traits.
// NOLINTBEGIN(readability-identifier-naming)
template <class T>
inline constexpr DataType data_type_of = [] {
  static_assert(sizeof(T) == 0, "not an element type");
  return DataType{};
}();
template <>
inline constexpr DataType data_type_of<std::uint8_t> = DataType::uint8;
template <>
inline constexpr DataType data_type_of<std::int8_t> = DataType::int8;
template <>
inline constexpr DataType data_type_of<std::int16_t> = DataType::int16;
template <>
inline constexpr DataType data_type_of<std::int32_t> = DataType::int32;
template <>
inline constexpr DataType data_type_of<std::int64_t> = DataType::int64;
template <>
inline constexpr DataType data_type_of<float> = DataType::float32;
template <>
inline constexpr DataType data_type_of<double> = DataType::float64;
template <>
inline constexpr DataType data_type_of<bool> = DataType::boolean;
// NOLINTEND(readability-identifier-naming)

template <class T>
TensorView view(std::span<T> values) {
  return {values.data(), data_type_of<T>, {static_cast<std::int64_t>(values.size())}, {}};
}

}  // namespace rueda
