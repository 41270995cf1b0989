// SPDX-License-Identifier: Apache-2.0
#include "core/engine/progress_loop.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace rueda {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

namespace {

// Ranks that are bound have few cores each, so all cores of the host count.
bool has_core_for_each(Rank ranks) { return ranks <= ::sysconf(_SC_NPROCESSORS_ONLN); }

}  // namespace

ProgressLoop::ProgressLoop(ProgressEngine& engine, RuntimeState& shared, Duration longest_spin,
                           Rank local_size)
    : engine_(engine),
      shared_(shared),
      spin_(longest_spin, has_core_for_each(local_size) ? SpinPolicy::kLooks : SpinPolicy::kLooksOfMany) {}

void ProgressLoop::run() {
  ProgressLock& lock = shared_.waiters->turns();
  spin_.begin(clock_now());
  lock.begin(*this);
  while (!engine_.finished()) {
    const Time now = clock_now();
    const bool spinning = spin_.goes_on(now);
    const std::uint32_t heard = spinning ? 0 : shared_.doorbell->listen();
    own_round_ = now;
    bool moved = true;
    try {
      if (waiter_failure_) std::rethrow_exception(std::exchange(waiter_failure_, nullptr));
      moved = engine_.progress(ProgressEngine::Caller::background_thread, now);
      if (moved) note_move(now);
    } catch (const PeerGone& gone) {
      engine_.report_lost(gone.rank);
    } catch (const std::exception& error) {
      engine_.fail(error.what());
    }
    if (moved) {
      if (!spinning) shared_.doorbell->stay_awake();
      lock.next(false);
    } else if (spinning) {
      lock.next(spin_.in_vain());
    } else {
      engine_.remind_of_shutdown(now);
      prepare_to_rest();
      lock.rest(heard, longest_sleep(now));
    }
  }
  engine_.end_in_order();
  lock.end();
  shared_.observer.doing("ended");
}

// Now and then the background thread has to look itself: what is left to it must not wait for ever.
TurnTaker::Outcome ProgressLoop::turn_of_waiter(Time now) noexcept {
  if (!waiters_may_run() || now - own_round_ > kLongestRest) return Outcome::not_for_waiter;
  bool moved = false;
  try {
    moved = engine_.progress(ProgressEngine::Caller::waiter, now);
    if (moved) note_move(now);
  } catch (...) {
    waiter_failure_ = std::current_exception();
  }
  if (!waiters_may_run()) return Outcome::not_for_waiter;
  return moved ? Outcome::moved : Outcome::still;
}

void ProgressLoop::note_move(Time now) {
  spin_.moved(now, engine_.busy());
  shared_.observer.turned();
  shared_.requested_timeline.look();
}

// If more is waited for it spins as long as it would have without the turns of others.
bool ProgressLoop::may_rest(bool served) {
  const Time now = clock_now();
  const bool more = !served || engine_.has_operations();
  if (longest_sleep(now) < kLongestRest || (more && spin_.goes_on(now))) return false;
  prepare_to_rest();
  return true;
}

bool ProgressLoop::all_is_quiet() {
  const bool quiet = waiters_may_run() && engine_.quiet();
  if (quiet) prepare_to_rest();
  return quiet;
}

void ProgressLoop::prepare_to_rest() {
  spin_.give_up();
  shared_.observer.doing(engine_.phase());
}

// If the engine must poll, sleeping a tenth of the time waited so far adds at most that to any wait.
nanoseconds ProgressLoop::longest_sleep(Time now) const {
  nanoseconds longest = kLongestRest;
  if (engine_.must_poll()) {
    const nanoseconds waited = spin_.since_move(now);
    longest = engine_.busy() ? std::clamp<nanoseconds>(waited / 10, microseconds(50), milliseconds(1))
                             : std::clamp<nanoseconds>(waited / 4, milliseconds(1), milliseconds(10));
  }
  if (const std::optional<Time> due = engine_.due())
    longest = std::min<nanoseconds>(longest, std::max(*due - now, Duration(1)));
  return longest;
}

}  // namespace rueda
