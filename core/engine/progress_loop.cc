// SPDX-License-Identifier: Apache-2.0
// Which turn of the ProgressEngine follows which, on whose thread, and when it sleeps.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "core/base/log.h"
#include "core/engine/progress_engine.h"

namespace rueda {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

}  // namespace

// When nothing moves: look again soon if somebody may need us within microseconds, else sleep on the bell.
// Shortly after a move that is likely also when nothing is pending: the next submission often follows.
void ProgressEngine::run() {
  ProgressLock& turns = shared_.waiters->turns();
  polling_.begin(clock_now());
  turns.begin(*this);
  while (!finished()) {
    const Time now = clock_now();
    const bool expecting = polling_.goes_on(now);
    const std::uint32_t heard = expecting ? 0 : shared_.bell->listen();
    if (own_turn(now)) {
      if (!expecting) shared_.bell->stay_awake();
      turns.next(false);
    } else if (expecting) {
      turns.next(polling_.in_vain());
    } else {
      remind_of_departure(now);
      prepare_to_rest();
      turns.rest(heard, longest_sleep(now, busy()));
    }
  }
  turns.end();
  shared_.observer.doing("ended");
}

// A turn, and what follows from it; whether anything moved.
bool ProgressEngine::look(bool lent, Time now) {
  if (!turn(lent, now)) return false;
  polling_.moved(now, busy());
  shared_.observer.turned();
  return true;
}

// As look(); also what has failed in a lent turn.
bool ProgressEngine::own_turn(Time now) {
  own_turn_ = now;
  try {
    if (lent_failure_) std::rethrow_exception(std::exchange(lent_failure_, nullptr));
    return look(false, now);
  } catch (const PeerGone& gone) {
    name_the_lost(gone.rank);
  } catch (const std::exception& error) {
    const bool again = !negotiator_->failure().ok();  // even telling the others does not work
    negotiator_->fail(Status::backend_error(fmt::format("rank {} failed: {}", parts_.rank, error.what())));
    if (again) complete_all(negotiator_->failure());
  }
  return true;
}

// Now and then its own thread has to see for itself: what is left to it must not wait for ever.
TurnTaker::Outcome ProgressEngine::lent_turn(Time now) noexcept {
  if (!lends() || now - own_turn_ > kLongestRest) return Outcome::not_for_lent;
  bool moved = false;
  try {
    moved = look(true, now);
  } catch (...) {
    lent_failure_ = std::current_exception();
  }
  if (!lends()) return Outcome::not_for_lent;
  return moved ? Outcome::moved : Outcome::still;
}

// Where a job fails its threads must hear of it, though a call may not return any more. Code of the program
// may do what it likes, and has been promised that its waits end. A device is current to a thread.
bool ProgressEngine::lends() const {
  return calling_out_ == 0 && !on_devices_ && !lent_failure_ && losses_.empty() &&
         negotiator_->failure().ok() && !finished();
}

// Where more is waited for it looks as long as it would have without lending.
bool ProgressEngine::may_rest(bool served) {
  const Time now = clock_now();
  const bool more = !served || !pending_.empty() || !works_.empty();
  if (longest_sleep(now, busy()) < kLongestRest || (more && polling_.goes_on(now))) return false;
  prepare_to_rest();
  return true;
}

bool ProgressEngine::all_is_quiet() {
  const bool quiet = lends() && !busy() && !shared_.departing.load() && shared_.queue.empty() &&
                     (!parts_.transport || parts_.transport->quiet()) && !negotiator_->due();
  if (quiet) prepare_to_rest();
  return quiet;
}

void ProgressEngine::prepare_to_rest() {
  polling_.give_up();
  shared_.observer.doing(works_.running() ? works_.phase() : busy() ? "waiting for other ranks" : "idle");
}

bool ProgressEngine::finished() const { return failed_ || (negotiator_->ended() && works_.empty()); }

bool ProgressEngine::busy() const {
  return !works_.empty() || !pending_.empty() || negotiator_->busy() || departed_;
}

nanoseconds ProgressEngine::longest_sleep(Time now, bool busy) const {
  nanoseconds longest = kLongestRest;
  if (has_to_look()) {
    // What we wait for cannot wake us. Sleeping a tenth of what was waited so far adds at most that to any
    // wait.
    const nanoseconds waited = polling_.since_move(now);
    longest = busy ? std::clamp<nanoseconds>(waited / 10, microseconds(50), milliseconds(1))
                   : std::clamp<nanoseconds>(waited / 4, milliseconds(1), milliseconds(10));
  }
  if (std::optional<Time> due = negotiator_->due())
    longest = std::min<nanoseconds>(longest, std::max(*due - now, Duration(1)));
  return longest;
}

bool ProgressEngine::has_to_look() const {
  return (parts_.transport && !parts_.transport->rings_bell()) || !works_.ring_bell();
}

void ProgressEngine::remind_of_departure(Time now) {
  if (!departed_ || reminded_ || now - departed_at_ < std::chrono::seconds(10)) return;
  reminded_ = true;
  const RankSet present = negotiator_->present();
  if (present.empty()) return;
  log(LogLevel::warning, "shutdown waits for {}, which {} not called it", to_string(present),
      present.count() == 1 ? "has" : "have");
}

}  // namespace rueda
