// SPDX-License-Identifier: Apache-2.0
// A record of a rank's present and last activity. Any thread and other processes may read it at any time.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/control/messages/request.h"
#include "core/observe/recorder_page.h"
#include "rueda/rank_set.h"

namespace rueda {

// An operation that this rank has in flight. A plain value.
struct Flight {
  std::uint64_t ticket = 0;  // how many were submitted before it
  std::uint64_t bytes = 0;
  std::int64_t submitted_ns = 0;
  int slot = -1;  // of the page; -1: none was free
};

// Purpose: answers "what was each rank doing?" when something is stuck or dead. The background thread alone
// writes; report() may be called by any thread. All that others see lies in the page, word by word atomic,
// without a lock. A slot is reused when its operation has ended, the one that ended first first: operations
// in flight stay visible however long they hang. Lives in the Runtime.
class Recorder {
 public:
  Recorder();

  // From now on the page is `page`, which may lie in shared memory; all so far is carried over. Called before
  // the first operation, or not at all: then the page is memory of the Recorder.
  void use_page(std::shared_ptr<RecorderPage> page);
  void identify(Rank rank, Rank size, std::uint64_t job);
  // Its members, from now on; none: the set is no more.
  void note_set(ProcessSetId id, const RankSet& members);
  // The job is over, and nothing has failed: nobody need read the page any more.
  void end_in_order();

  // Whoever submits keeps the Flight, and completes it once. `name`: as it is to be shown.
  Flight submitted(const std::string& name, const Request& request, std::int64_t now_ns = monotonic_ns());
  void planned(const Flight& flight, std::uint64_t plan);
  void started(const Flight& flight, std::int64_t now_ns = monotonic_ns());
  void completed(const Flight& flight, bool ok);
  void doing(std::string_view activity);  // a string that lives for ever

  // One line: what was completed last, and what is going on.
  std::string summary() const;
  // Several lines, each indented: the activity, operations in flight (oldest first), the last ended ones.
  std::string report() const;
  // For read_recording(); good as long as the Recorder.
  ConstBytes page() const { return {reinterpret_cast<const std::byte*>(page_.load()), sizeof(RecorderPage)}; }

 private:
  int take_slot();
  void name_slot(const std::string& name, const Request& request, const Flight& flight);
  void set_state(int slot, RecordedState state, RecorderPage::Word time, std::int64_t now);
  void count_unrecorded(int change);
  void forget(std::uint64_t plan);

  std::array<std::uint16_t, RecorderPage::kSlots> free_;  // a ring; the slot that ended first comes first
  std::size_t first_free_ = 0;
  std::size_t free_count_ = RecorderPage::kSlots;
  std::uint64_t submitted_ = 0;
  std::string_view activity_;
  std::shared_ptr<RecorderPage> own_;  // stays when another is used: a report may be reading it
  std::shared_ptr<RecorderPage> given_;
  std::atomic<RecorderPage*> page_;
};

}  // namespace rueda
