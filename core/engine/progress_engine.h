// SPDX-License-Identifier: Apache-2.0
// The background thread's object: it drives agreement and data movement.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/system/owner_thread.h"
#include "core/control/negotiation/negotiator.h"
#include "core/engine/job_start.h"
#include "core/engine/lost_peers.h"
#include "core/engine/running_works.h"
#include "core/engine/runtime_components.h"
#include "core/engine/runtime_state.h"
#include "core/engine/submissions/pending_table.h"

namespace rueda {

// Purpose: one per Runtime; owns everything between the submit queue and the completed Handle: PendingTable,
// Negotiator, Transport, backends, running Works. Constructed, run and destroyed on the background thread;
// ProgressLoop decides when it makes progress, and on whose thread. start() waits for all ranks, and
// report_lost() for 200 ms. Otherwise only a send to a process that has ended can block.
class ProgressEngine {
 public:
  // The thread that runs the engine: the background thread, or a thread that waits for an operation. A waiter
  // stops before work that the background thread alone may do.
  enum class Caller { background_thread, waiter };

  ProgressEngine(RuntimeComponents components, RuntimeState& shared);

  // Waits until every rank is there. Tells how that ended and who is where.
  const Welcome& start();
  // One round of everything; whether anything moved.
  bool progress(Caller caller, Time now);
  // That rank is lost: the job cannot go on.
  void report_lost(Rank rank);
  // This rank cannot go on, for that reason; nor can the job.
  void fail(const std::string& reason);

  // Once it is finished: after a regular end the other ranks hear that this one's end is no loss.
  void end_in_order();
  // Every rank has departed and all is complete, or the job cannot go on.
  bool finished() const { return failed_ || (negotiator_->ended() && works_.empty()); }
  // Why the job could not go on; ok after a regular end.
  const Status& failure() const { return negotiator_->failure(); }
  // True if a thread that waits may run it. False when the job has failed, aborted or ended: then a send may
  // not return. False while an operation calls the program's code, which could block the wait. False if the
  // job uses devices, because each thread has its own current device.
  bool waiters_may_run() const;
  // Operations of this rank are in flight.
  bool has_operations() const { return !pending_.empty() || !works_.empty(); }
  // Somebody waits for other ranks.
  bool busy() const;
  // Nothing is to be done, and nothing has arrived. Takes less time than a round.
  bool quiet() const;
  // Something that it waits for cannot wake the background thread.
  bool must_poll() const;
  // When there will be something to do, even if nothing arrives.
  std::optional<Time> due() const { return negotiator_->due(); }
  // Names the phase for reports: that of the oldest running Plan, "waiting for other ranks" or "idle".
  std::string_view phase() const;
  // Logs who has not called shutdown(), 10 s after this rank has.
  void remind_of_shutdown(Time now);

 private:
  // Purpose: how far this rank has come on its way out of the job.
  struct Departure {
    enum class State {
      present,
      departed,  // it submits nothing more
      over,      // and all it asked for is complete
    };
    State state = State::present;
    bool reminded = false;
    Time at{};
  };
  // Purpose: operations here that only the background thread's own thread may carry out.
  struct BoundToThread {
    std::size_t calling_out = 0;  // operations in flight that call the program's code
    bool on_devices = false;      // some operation was, or is
  };

  void cut_where_launcher_tells(const Status& failure);
  bool accept_submissions(Time now);
  Status refusal(std::span<Entry> group);
  Time take_plans(Time now);
  void notice_unmoved(Time now);
  bool end_departure();

  void abort(const Plan& plan, const WorkFailure& failure);
  void complete(const Plan& plan, std::span<Entry> entries, const Status& status);
  void complete(std::span<Entry> entries, const Status& status);
  void conclude_all(std::span<Entry> entries, const Status& status);
  void complete_all(const Status& status);
  void note_static_sets();
  void note_sets(const Plan& plan);
  void tell_stalls();
  Negotiator::Settings negotiator_settings();
  StallInspector::OwnState own_state(const Asked& asked) const;

  RuntimeComponents components_;
  RuntimeState& shared_;
  OwnerThread owner_;
  StartedJob job_;
  std::optional<Negotiator> negotiator_;  // once everybody is known
  std::vector<Entry> spare_;              // empty; room for what the queue gives
  PendingTable pending_;
  std::vector<std::shared_ptr<HandleState>> released_;  // of the operations that ended in this round
  RunningWorks works_;
  LostPeers lost_;
  BoundToThread bound_;
  Departure departure_;
  bool failed_ = false;  // all that was here has been completed with the failure
  Time looked_for_unmoved_{};
};

}  // namespace rueda
