// SPDX-License-Identifier: Apache-2.0
// The components of a Runtime. The layer that knows how bytes move (ops) puts them together.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/config.h"
#include "core/control/bootstrap/static_process_sets.h"
#include "core/control/messages/transport.h"
#include "core/engine/backend.h"
#include "core/engine/memory/accelerator.h"
#include "core/engine/memory/symmetric_memory.h"
#include "core/engine/wait/event_count.h"
#include "core/observe/recorder_page.h"

namespace rueda {

struct Welcome;

// Purpose: the components of one rank. Made by the thread that starts the Runtime, then owned by its
// background thread.
struct RuntimeComponents {
  RuntimeComponents() = default;  // and from no list: init({{0, 1}}) means ranks

  Config config;
  Rank rank = 0;
  Rank size = 1;
  // The ranks of the job among those that were started, where it is not all of them in their order.
  std::vector<Rank> started_as;
  std::uint64_t job = 0;   // how many this process has had before: makes names of operations its own
  RankLists process_sets;  // that the job begins with, the same on all ranks
  std::string host;        // ranks of equal host share a machine
  std::string found_by;    // how the ranks find one another, for the log; may be empty
  std::unique_ptr<Transport> transport;            // none needed for one rank
  std::vector<std::unique_ptr<Backend>> backends;  // in order of preference, the same on all ranks
  std::shared_ptr<EventCount> doorbell = std::make_shared<EventCount>();
  std::shared_ptr<SymmetricMemory> tensor_memory;  // none: tensors lie in ordinary memory
  // For tensors on devices; none: what there is instead, "no CUDA in this Rueda".
  std::shared_ptr<Accelerator> accelerator;
  // Memory of that device as its collectives like it best, or as any; throws std::bad_alloc.
  std::function<std::shared_ptr<std::byte>(int device, std::size_t bytes)> device_memory;
  std::string no_accelerator = "nothing that could reach it";
  std::shared_ptr<RecorderPage> record;  // where others can read what this rank does; none: its own memory
  // The file that has `record`, for other processes; -1: no file has it.
  struct RecordFile {
    int descriptor = -1;
    std::size_t offset = 0;
  };
  RecordFile record_file{};
  // True: the connections of a start end with it, so that a later start of this process hears nothing of
  // it.
  bool start_may_be_repeated = false;
  // True: where this job cannot go on, another one follows in this process.
  bool elastic = false;
  std::uint64_t generation = 0;  // of an elastic job
  Rank local_rank = -1;          // then: its own in the job before, which it keeps; -1: there was none
  // Whether other ranks make up the job by now, so that this start is in vain. No function: they do not
  // change.
  std::function<bool()> superseded;
  // Whether the launcher has told something since the last call; it rings the doorbell then. No function: it
  // has to be asked some times a second.
  std::function<bool()> has_news;
  // Called when this rank has reported a stall. No function: nobody has to hear of it.
  std::function<void()> stalled;
  // Ranks that have failed, as a launcher tells of them, each once. No function: the transport alone knows.
  std::function<std::vector<Rank>()> newly_failed;
  // How the process of a rank that was lost ended, "was killed by signal 9 (Killed)"; empty as long as nobody
  // has said it. No function: nobody will.
  std::function<std::string(Rank)> how_it_ended;
  // The silence of the connection to a rank, in words, "has sent nothing for 30 s"; empty where it did not.
  // No function: the transport does not watch connections.
  std::function<std::string(Rank)> silence;
  // Describes the last activity of a lost rank, in lines. Empty if the activity is not known here, or another
  // rank has told it.
  std::function<std::string(Rank)> last_words;
  std::string peer_info;  // travels with the introduction of this rank
  // Called once all ranks are there, before anything is sent. Calls `alive` now and then while it waits.
  using Alive = std::function<void()>;
  std::function<void(const Welcome&, const Alive& alive)> on_peers_known;
};

}  // namespace rueda
