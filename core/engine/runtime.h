// SPDX-License-Identifier: Apache-2.0
// One rank of a job: takes submissions and has a background thread carry them out.
#pragma once

#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/base/topology.h"
#include "core/engine/background_thread.h"
#include "core/engine/graph_captures.h"
#include "core/engine/memory/tensor_memory.h"
#include "core/engine/runtime_components.h"
#include "core/engine/runtime_state.h"
#include "core/engine/submissions/numbered_names.h"
#include "core/engine/submissions/submission.h"
#include "core/engine/submissions/submission_rules.h"
#include "rueda/handle.h"

namespace rueda {

class MetricsFile;
class Watchdog;

// Purpose: the object behind the front door. c10d groups and tests make several in one process. Any thread
// may call it. The constructor waits for all ranks. The destructor shuts down if nobody did.
class Runtime {
 public:
  // Throws PeerLost naming who did not come within start_timeout, and Mismatch for ranks of another version.
  explicit Runtime(RuntimeComponents components);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  // Throws InvalidArgument for a submission that cannot mean anything. All else is told by the Handle.
  // With a `prefix` it gets the next name that begins so: of the n-th of its kind on every rank of the set.
  Handle submit(Submission&& submission, std::string_view prefix = {});
  // Operations of one process set that are called together: every rank submits as many of the same names, in
  // any order. All of them or, when one is refused here or the ranks differ, none.
  std::vector<Handle> submit_group(std::vector<Submission> group);

  // Memory for tensors, zeroed: where the ranks of this host can work on it without a copy, else ordinary
  // memory. It may outlive the Runtime. Throws BackendError where there is too little.
  std::shared_ptr<std::byte> allocate(std::size_t bytes) { return memory_.allocate(bytes); }
  // The same on a device, not initialised. Throws InvalidArgument where there is none, BackendError where
  // there is too little.
  std::shared_ptr<std::byte> allocate_on_device(int device, std::size_t bytes) {
    return memory_.allocate_on_device(device, bytes);
  }
  // Notes in a submission of a tensor on a device where its stream stands now, for a submit() that may come
  // later, in another Runtime, too. submit() does it where nothing is noted. Throws InvalidArgument where
  // there is no device.
  void make_ready(Submission& submission);
  // Into which graphs its operations go.
  GraphCaptures& captures() { return captures_; }
  // Returns the shared memory from which allocate() takes; null: this rank shares no memory.
  const std::shared_ptr<SymmetricMemory>& tensor_memory() const { return memory_.shared(); }

  // Says that this rank will submit nothing more, then waits until every rank has said so and all is
  // complete. An exception of a WaitCheck leaves shutdown() earlier; another call waits on.
  void shutdown();
  // The same, but waits no longer than that; whether all is over. The rest goes on without the caller.
  bool shutdown_within(Duration longest);
  // Gives the job up: all operations in flight fail on every rank, which hears who has done it.
  void abort();

  // Whether the caller works as the background thread: in an allocation, or in exit() called by a library.
  bool on_background_thread() const { return thread_.running() && shared_.waiters->turns().mine(); }

  const Topology& topology() const { return topology_; }
  // Which of the ranks that were started these are; empty: all, or those of an elastic job.
  const std::vector<Rank>& started_as() const { return started_as_; }
  // The number of the job, the same on all ranks, and another than any of them has had before.
  std::uint64_t job() const { return job_; }
  // The process sets that the job began with: ids 1, 2, ...
  const RankLists& static_sets() const { return static_sets_; }
  // The setting; `fixed` holds for all that this rank submits.
  ReductionOrder reduction_order() const { return rules_.reduction_order(); }
  // Why the job cannot go on; ok while it can.
  Status failure() const;
  // Why tensors on devices cannot be given here, "no driver: ..."; empty where they can.
  std::string device_problem() const { return memory_.device_problem(); }
  // Describes this rank's activity in several lines. For watchdogs; callable at any time.
  std::string report() const;

  // Returns this rank's counters so far.
  MetricsSnapshot metrics() const { return shared_.observer.metrics(); }
  void use(const MetricsSnapshot::Membership& membership) { shared_.observer.counters().use(membership); }
  // Writes what happens on this rank to a file, until stop_timeline() or shutdown() (see rueda.h).
  void start_timeline(const std::string& path, bool mark_cycles = false);
  void stop_timeline();

  // A name for something without one, which then has to be submitted.
  std::string next_name(std::string_view prefix, ProcessSetId process_set) {
    return names_.next(job_, prefix, process_set);
  }
  // Counts anew: after a join, in which ranks have called different numbers of operations.
  void restart_names(ProcessSetId process_set) { names_.restart(process_set); }

 private:
  void run(RuntimeComponents components, std::promise<Welcome> started);
  void depart();
  void finish();
  void begin_timeline(const Config& config);
  void begin_metrics_file(const std::string& path);
  void begin_tuning_log(const Config& config);

  RuntimeState shared_;
  GraphCaptures captures_;
  TensorMemory memory_;
  Topology topology_;
  const std::vector<Rank> started_as_;
  const RankLists static_sets_;
  SubmissionRules rules_;
  std::uint64_t job_ = 0;
  const std::string identity_;  // "rank 1 of 2 (process 4711 on host)"
  NumberedNames names_;
  std::mutex shutdown_mutex_;
  std::unique_ptr<Watchdog> watchdog_;
  std::unique_ptr<MetricsFile> metrics_file_;
  BackgroundThread thread_;
};

}  // namespace rueda
