// SPDX-License-Identifier: Apache-2.0
// The front door: start a job, ask for this process's rank, submit operations, wait for them.
//
//   rueda::init();
//   std::vector<float> values(1000, 1.0F);
//   rueda::allreduce_async("values", rueda::view(values), rueda::view(values)).wait();
//   rueda::shutdown();
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rueda/device_window.h"  // IWYU pragma: export
#include "rueda/error.h"          // IWYU pragma: export
#include "rueda/handle.h"         // IWYU pragma: export
#include "rueda/metrics.h"        // IWYU pragma: export
#include "rueda/process_set.h"    // IWYU pragma: export
#include "rueda/reduction.h"      // IWYU pragma: export
#include "rueda/tensor_view.h"    // IWYU pragma: export
#include "rueda/training.h"       // IWYU pragma: export

// Everything that programs call.
namespace rueda {

// Starts the job of this process: settings from the environment, ranks from the launcher; without a launcher
// one rank. A second call before shutdown() does nothing; with other process sets it throws InvalidArgument.
//
// `process_sets`: lists of ranks, the same on every rank; process_sets() of process_set.h gives the sets made
// of them, with the ids 1, 2, ... Functions of mpi.h make such lists of MPI communicators.
//
// `ranks`: the job consists of these of all ranks that were started, numbered in this order; each of them
// gives the same list. Empty: all. The others may make jobs of their own; the launcher's MPI begins when all
// have called init(), or MPI_Init().
//
// Errors: InvalidArgument for a bad setting, for an impossible list of ranks, and on a rank that is not in
// `ranks`; Mismatch when ranks give different process sets. Both have the same words on every rank, and
// init() may then be called again. BackendError when MPI cannot be used. PeerLost names the ranks that did
// not come within RUEDA_START_TIMEOUT, and is final for the process: a later init() fails with the same
// words. While MPI itself starts the missing ranks are not known, and a later init() waits again.
void init(const std::vector<std::vector<Rank>>& process_sets = {}, const std::vector<Rank>& ranks = {});

// Ends the job once every rank has called shutdown() and all submitted operations are complete. Called at the
// end of the process if the program did not. Does nothing when not initialized.
void shutdown();

// Whether ruedarun goes on with the job when it loses ranks, and takes others in: ruedarun --min-np. Then
// PeerLost is not final. shutdown() and init() begin the next generation of the job, with other ranks
// perhaps: init() waits until all of them have called it. It throws LeftJob when this process was to leave
// the job, as its host is to go, and NotInitialized where the job has gone on without this process.
bool is_elastic();

// The changes in an elastic job since the last init().
struct MembershipChange {
  bool added = false;    // others have joined, or wait until the ranks call shutdown() and init()
  bool removed = false;  // ranks are lost, or wait for the same to leave
  double since = 0;      // when this process heard of it: seconds since 1970
};
// Nothing in a job that is as it was. Does not wait.
std::optional<MembershipChange> membership_change();
// In an elastic job: this rank has the state of training. When no rank is left that has it, the job ends.
void note_training_state();

// Whether init() has returned, and shutdown() not yet.
bool is_initialized();

// This process's rank, and the number of ranks. "Local" counts the ranks of this host; "cross" counts the
// ranks of equal local_rank, over hosts. These are Horovod's terms. In an elastic job a process keeps
// its local_rank while others come and go, and a new one gets the lowest free one. In a forked child they are
// those of its parent. They throw NotInitialized before init() and after shutdown().
Rank rank();
Rank size();
Rank local_rank();
Rank local_size();
Rank cross_rank();
Rank cross_size();
// Whether every host has the same number of ranks. Throws NotInitialized as rank() does.
bool is_homogeneous();

// Memory for tensors, zeroed, aligned to a cache line at least. When the ranks of this host share memory,
// they work on it without a copy (all of them must have allocated their tensor this way); else it is ordinary
// memory. Freed with its last pointer, also after shutdown(). An allocation costs some milliseconds a MiB:
// make it once a tensor, not once a step. Throws BackendError, with the size and the remedy, when there is
// too little memory.
std::shared_ptr<std::byte> allocate(std::size_t bytes);

// Memory for tensors on device number `device`, not initialised. NCCL allocates it where it has such a
// function, and then works there without copies of its own; else it is ordinary memory of the device. Freed
// with its last pointer. An allocation stops the device: make it once a tensor, not once a step. Throws
// InvalidArgument when there is no such device, BackendError when it has too little memory.
std::shared_ptr<std::byte> allocate_on_device(int device, std::size_t bytes);

// The operations. Each returns at once; `name` pairs this rank's call with those of the other ranks of the
// scope, and must not be in flight twice there. Ranks may submit in any order. The caller leaves the memory
// behind a view untouched until the Handle is done. Errors: InvalidArgument here for arguments that cannot
// mean anything; all else from Handle::wait, with the same words on every rank.

// output = the reduction over all ranks of `input`, element by element. Input and output have the same shape
// and dtype, on all ranks. In place: give the same view twice.
Handle allreduce_async(std::string name, ConstTensorView input, TensorView output, Reduction reduction = {},
                       Scope scope = {});

// Handle::output() = the ranks' inputs one after another along the first dimension: shape [sum of n_r, d,
// ...] for inputs [n_r, d, ...]. The first dimension may differ by rank; the others and the dtype may not.
Handle allgather_async(std::string name, ConstTensorView input, Scope scope = {});

// output = the input of rank `root` of the job, on every rank; `input` is read on the root only. Same shape
// and dtype on all ranks.
Handle broadcast_async(std::string name, ConstTensorView input, TensorView output, Rank root,
                       Scope scope = {});

// Sends the first splits[0] rows of `input` to rank 0, the next splits[1] rows to rank 1, and so on; empty
// `splits` give equal parts. Handle::output() = the rows received, in the order of the senders' ranks;
// Handle::received_splits() = how many came from each rank.
Handle alltoall_async(std::string name, ConstTensorView input, std::vector<std::int64_t> splits = {},
                      Scope scope = {});

// Handle::output() = this rank's part of the rows of the reduction of `input`: n / size rows, and one more on
// each of the first n % size ranks. Same shape and dtype on all ranks.
Handle reducescatter_async(std::string name, ConstTensorView input, Reduction reduction = {},
                           Scope scope = {});

// output = the reduction over all ranks of `input`, on rank `root` of the job only. The other ranks' outputs
// are neither read nor written, and may have no memory. Same shape and dtype on all ranks. In place: give the
// same view twice. An adasum, top-k compression and `measure` are for allreduce only.
Handle reduce_async(std::string name, ConstTensorView input, TensorView output, Rank root,
                    Reduction reduction = {}, Scope scope = {});

// Handle::output() on rank `root` of the job = what allgather_async gives; on the others it has no rows.
// Handle::received_splits() = how many rows came from each rank. The first dimension may differ by rank; the
// others and the dtype may not.
Handle gather_async(std::string name, ConstTensorView input, Rank root, Scope scope = {});

// Handle::output() = this rank's rows of `input` of rank `root` of the job. The first splits[0] rows are rank
// 0's, the next splits[1] rank 1's, and so on. Empty `splits` give equal parts. The other ranks give no
// splits, and an `input` without rows. Its dtype and other dimensions are those of the root's.
Handle scatter_async(std::string name, ConstTensorView input, Rank root,
                     std::vector<std::int64_t> splits = {}, Scope scope = {});

// A message to rank `destination` of the job, from rank `source` of the job. No other rank takes part, and
// both are of the scope. `name` pairs one send_async with one recv_async, whose output has the shape and
// dtype of the input. The messages of the other direction have names of their own. A message begins when
// both ranks have called. So two ranks that wait for their sends before they receive wait for ever. Both
// throw InvalidArgument in jobs of more than 32,768 ranks, too. A CUDA graph cannot capture messages.
Handle send_async(std::string name, ConstTensorView input, Rank destination, Scope scope = {});
Handle recv_async(std::string name, TensorView output, Rank source, Scope scope = {});

// Several allreduces that are carried out together, or fail together: all ranks give the same number. Output
// i belongs to the operation "name.i". Throws InvalidArgument when inputs and outputs differ in number.
std::vector<Handle> grouped_allreduce_async(const std::string& name, std::span<const ConstTensorView> inputs,
                                            std::span<const TensorView> outputs, Reduction reduction = {},
                                            Scope scope = {});

// Done when every rank of the scope has called it.
Handle barrier_async(Scope scope = {});

// Shares a window among the ranks of the scope, for allreduces without packing. Each rank gives a window on
// its `device`, of one size and with the same slots; gradients lie in it, say. From then on an allreduce of
// a tensor with the name of a slot works in that slot. A rank whose tensor lies elsewhere copies it there
// and back, unless a rank has joined. NCCL is told about the memory when its version can be (2.27). Slots of
// names that were shared before are replaced. Done when all ranks have called it. When a device cannot share,
// or a rank brings no memory, tensors travel as ever; Handle::takes_window() says so. Ranks whose windows
// differ get BackendError, in the same words. The memory stays until the job ends, or until another window is
// shared and nobody else holds this one on any rank.
Handle share_window_async(DeviceWindow window, int device, Scope scope = {});

// Has `body` capture a CUDA graph: operations on tensors of streams that are being captured there are agreed
// on as ever, but NCCL's calls become a part of the graph. It then runs, any number of times, without the
// host. Every rank of the scope calls it, with its own `device`; `body` begins and ends the capture and waits
// for all its operations. Ranks then run their graphs equally often, and in the same order beside other
// graphs and operations on devices; wait for such work from before the capture first. Work of the host is
// done once, in `body`. Ranks make a communicator and a buffer for each graph, which stay until the job ends;
// destroy graphs before shutdown(), since NCCL ends no communicator that a graph holds.
//
// Errors: throws what `body` throws. The ranks whose `body` went well then get BackendError with its words.
// BackendError also when an operation was not waited for, or NCCL does not connect the ranks; InvalidArgument
// when there is no device. After an error no graph may run. A rank that waits in its `body` for a rank whose
// `body` has failed is reported as stalled. Nothing is agreed on when graphs run: a graph that other ranks do
// not run waits on the device for ever, without a report.
void capture(const std::function<void()>& body, int device, Scope scope = {});

// Writes what happens on this rank to `path` as a Chrome trace, for Perfetto or chrome://tracing. Every rank
// calls it; rank 0 writes `path`, the others PATH with ".rankN" before the extension. Clocks agree.
// `mark_cycles` adds a mark for each round of the background thread. Throws InvalidArgument when the file
// cannot be written, and when a timeline is being written already.
void start_timeline(const std::string& path, bool mark_cycles = false);
// The file is complete when this returns. Rank 0 then makes one file, `path`, out of those of all ranks if it
// can reach them (waiting 1 s at most for ranks that have not stopped); else each rank's stays. Does nothing
// when no timeline is being written.
void stop_timeline();

}  // namespace rueda
