// SPDX-License-Identifier: Apache-2.0
// The background thread's object: it drives agreement and data movement.
#pragma once

#include <chrono>
#include <deque>
#include <exception>
#include <optional>
#include <span>
#include <vector>

#include "core/base/system/owner_thread.h"
#include "core/control/bootstrap/bootstrap.h"
#include "core/control/negotiation/negotiator.h"
#include "core/engine/operations/pending_table.h"
#include "core/engine/running_works.h"
#include "core/engine/runtime_components.h"
#include "core/engine/runtime_state.h"
#include "core/engine/wait/progress_lock.h"
#include "core/engine/wait/spin_policy.h"

namespace rueda {

// Purpose: one per Runtime; owns everything between the submit queue and the completed Handle: PendingTable,
// Negotiator, Transport, backends, running Works. Constructed, run and destroyed on the background thread;
// single turns are lent to threads that wait (ProgressLock). Never blocks but in run(), asleep on the bell
// when there is nothing to do, and for 200 ms in how_it_ended(), when a peer is lost.
class ProgressEngine : private TurnTaker {
 public:
  ProgressEngine(RuntimeComponents parts, RuntimeState& shared);

  // Waits until every rank is there. Tells how that ended and who is where.
  Welcome start();
  // Returns when every rank has departed and all is complete, or when the job cannot go on.
  void run();
  // Why the job could not go on; ok after a regular end.
  const Status& failure() const { return negotiator_->failure(); }

 private:
  void begin_observation(const TreeNode& node, Time expires);
  bool own_turn(Time now);
  Outcome lent_turn(Time now) noexcept override;
  bool in_vain() override { return polling_.in_vain(); }
  bool may_rest(bool served) override;
  bool all_is_quiet() override;
  bool lends() const;
  void prepare_to_rest();
  bool look(bool lent, Time now);
  bool turn(bool lent, Time now);
  bool accept_submissions(Time now);
  void accept(std::span<Entry> entries, Time now);
  bool hear_others(Time now);
  bool tell_others();
  void take_plans();
  std::optional<Envelope> next_message();
  bool start_plans(Time now);
  void notice_unmoved(Time now);
  bool come_to_rest();
  bool finished() const;

  std::vector<Entry> entries_for(const Plan& plan);
  void start_plan(RunningWorks::Called& called, Time now);
  void give_up(const Plan& plan, const std::string& what);
  void decided(const Plan& plan, std::span<Entry> entries);
  void give_back(std::span<Entry> entries, const Status& status);
  Negotiator::Settings negotiator_settings();
  StallInspector::OwnState own_state(const Asked& asked) const;
  std::string place_of(Rank rank) const;
  void complete(std::span<Entry> entries, const Status& status);
  void complete_all(const Status& status);
  void name_the_lost(Rank lost);
  std::string how_it_ended(Rank lost);
  bool busy() const;
  std::chrono::nanoseconds longest_sleep(Time now, bool busy) const;
  bool has_to_look() const;
  void remind_of_departure(Time now);

  RuntimeComponents parts_;
  RuntimeState& shared_;
  OwnerThread owner_;
  Welcome welcome_;
  std::deque<Envelope> early_;            // came before the clocks were compared
  std::optional<Negotiator> negotiator_;  // once everybody is known
  std::vector<Entry> spare_;              // empty; room for what the queue gives
  PendingTable pending_;
  std::vector<std::shared_ptr<HandleState>> released_;  // of the operations that ended in this turn
  RunningWorks works_;
  RankSet lost_;                     // to whom nothing is sent any more: the call might not return
  bool failed_ = false;              // all that was here has been completed with the failure
  std::size_t calling_out_ = 0;      // operations here whose Works call the program's code
  bool on_devices_ = false;          // some operation was, or is
  Time own_turn_{};                  // the last one of its own thread
  std::vector<Rank> losses_;         // of which a lent turn has heard
  std::exception_ptr lent_failure_;  // what a lent turn has thrown
  bool departed_ = false;
  bool rested_ = false;
  bool reminded_ = false;
  Time departed_at_{};
  Time looked_for_unmoved_{};
  SpinPolicy polling_;
};

}  // namespace rueda
