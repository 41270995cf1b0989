// SPDX-License-Identifier: Apache-2.0
// Decides which workers make up an elastic job, generation by generation.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/time.h"
#include "core/control/membership/generation.h"

namespace rueda {

// Purpose: hears which workers are lost, have finished or want to join, and makes the next generation. There
// is one for a job, so ranks never disagree. A generation follows when
//   a member is lost: at once, without an answer of anybody;
//   a member leaves it (since a change is due, or it is broken): when all have left, or kLeaving later;
//   a member finishes before the generation has formed.
// Workers that wait come in with the next one, and those that are to retire are not in it. Pure: events and
// time in, generations out. Owned by the supervisor.
class Membership {
 public:
  struct Limits {
    Rank least = 1;               // workers of a generation
    Rank most = 1;                // the others wait, as spares
    Duration timeout{};           // with too few workers, and with a member that says nothing
    std::optional<int> resets{};  // generations after the first
  };

  // From the first member that leaves a generation to the next one: so long the news of a death may take.
  static constexpr Duration kLeaving = std::chrono::seconds(1);
  // All members have come, and have not met since: one of them is stuck. In a further generation it does not
  // come, and is silent.
  static constexpr Duration kMeeting = std::chrono::seconds(30);
  static constexpr Duration kMeetingOfWorker = std::chrono::microseconds(500);  // more, for each

  // The first generation has the workers 0 to `first` - 1.
  Membership(const Limits& limits, Rank first);

  // A worker is ready for a generation. `tried`: the last one in which it was, or which it tried to form.
  void ready(Worker worker, std::optional<std::uint64_t> tried, Time now);
  // The worker has met all others of that generation.
  void formed(Worker worker, std::uint64_t generation);
  // It has the state of training.
  void has_state(Worker worker);
  void lost(Worker worker);
  // The worker is to go, without a loss: later generations do without it, as soon as they can.
  void retire(Worker worker);
  // The worker has done its work. It is in no later generation.
  void finished(Worker worker);
  void give_up(std::string why);

  // Makes the next generation if there is a reason for it, of all that has been told since the last call.
  std::optional<Generation> decide(Time now);
  // decide() has something to do then.
  std::optional<Time> due() const;

  const Generation& generation() const { return generation_; }
  bool has_formed() const { return unformed_.empty(); }
  bool has_taken_part(Worker worker) const { return has_been_in_.contains(worker); }
  Rank count() const { return present_.count() + waiting_.count(); }  // members, and who waits
  // There are too few workers for the next generation.
  bool is_short() const { return since_.few.has_value(); }
  // The changes if the members left this generation now: waiting workers come in, others retire.
  struct Due {
    bool joiners = false;
    bool leavers = false;
    bool operator==(const Due&) const = default;
  };
  Due change_due() const;
  const RankSet& retiring() const { return retiring_; }
  // Whether a worker that comes may take part.
  bool takes_more() const { return !some_finished_ && failure_.empty() && !is_at_limit(); }
  // All members have done their work.
  bool is_over() const { return some_finished_ && present_.empty() && !broken_.by_loss; }
  // Returns the members that others have awaited in vain for `timeout`. The caller must end these workers.
  RankSet take_silent(Time now);
  // Why the job cannot go on; empty while it can. Final.
  const std::string& failure() const { return failure_; }

 private:
  // Times from which something does not last for ever.
  struct Since {
    std::optional<Time> leaving;  // the first member has left
    std::optional<Time> forming;  // the first member has come to form this generation
    std::optional<Time> meeting;  // all members have come
    std::optional<Time> few;      // there are too few workers for the next one
  };

  // Why the present generation cannot go on.
  struct Broken {
    bool by_loss = false;       // of a member
    bool by_early_end = false;  // a member has finished before the generation has formed
  };

  Duration meeting_time() const { return kMeeting + generation_.workers.count() * kMeetingOfWorker; }
  bool is_at_limit() const;
  bool is_due(Time now) const;
  bool keeps_state(const RankSet& members) const;
  RankSet next_workers() const;
  bool goes_on_with(const RankSet& workers, Time now);
  Generation make_generation(const RankSet& workers, Time now);

  const Limits limits_;
  Generation generation_;
  RankSet present_;  // members that are neither lost nor have finished
  RankSet waiting_;  // to join
  RankSet retiring_;
  RankSet arrived_;      // members that are ready to form this generation
  RankSet gone_from_;    // members that have left it
  RankSet unformed_;     // members that have not met the others yet
  RankSet has_been_in_;  // workers that have formed some generation
  RankSet with_state_;   // workers
  Broken broken_;
  bool some_finished_ = false;
  Since since_;
  std::string failure_;
};

}  // namespace rueda
