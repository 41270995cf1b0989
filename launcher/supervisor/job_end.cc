// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/job_end.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <cstring>
#include <system_error>
#include <utility>

namespace rueda {
namespace {

constexpr int kMostLines = 16;
constexpr auto kInterruptGrace = std::chrono::seconds(5);
constexpr auto kOneWish = std::chrono::milliseconds(100);
constexpr auto kFarewell =
    std::chrono::seconds(10);  // for agents after the end of all ranks, while nothing comes

}  // namespace

JobEnd::JobEnd(const LaunchOptions& options, const JobRecord& job, AgentServer& agents, AgentStarter& starter,
               JobOutput& output)
    : options_(options),
      job_(job),
      agents_(agents),
      starter_(starter),
      output_(output),
      stop_after_(options.stop_after, options.grace) {}

void JobEnd::end_by(int signal) {
  const auto now = Clock::now();
  const bool again = signal_ != 0;
  // A terminal that closes, timeout and other programs send one wish as two signals.
  if (again && now < signal_at_ + kOneWish) return;
  if (again) return ending_.on_hurry(now);
  signal_ = signal;
  signal_at_ = now;
  if (signal == SIGINT) agents_.tell_all(agents::SendSignal{SIGINT});
  if (signal == SIGINT)
    ending_.on_interrupt(now, options_.grace_given ? options_.grace : kInterruptGrace);
  else if (signal == SIGPIPE)
    ending_.on_terminate(now);
  else
    ending_.on_terminate(now, options_.grace);
  check_all_ended();
}

// The first rank that ends may do so since an operation has failed, by the fault of another rank. Its words
// tell of that rank, which may end later.
void JobEnd::name_failed(int rank) {
  const bool is_first = !failure_;
  const std::string failure = job_.failure_of(rank);
  const bool is_cause = job_.failed_by_itself(rank) && !std::exchange(told_.cause, true);
  if (!is_first && !is_cause && !job_.was_killed(rank)) return;
  if (++told_.failure_lines > kMostLines) return;
  std::string words = "ruedarun: " + job_.words_for(rank);
  if (is_first && !failure.empty()) words += " after a failed operation: " + failure;
  if (is_cause && !is_first) words += "; it had told of no failed operation";
  output_.say(words);
}

void JobEnd::fail(int rank) {
  if (signal_ != 0 || told_.over) return;
  name_failed(rank);
  fail_for(rank);
  // Later ones end because of these.
  if (++told_.failures <= kMostLines) agents_.tell_all(agents::PeerEnded{rank, job_.words_for(rank)});
}

void JobEnd::fail_for(std::optional<int> rank) {
  if (!failure_) failure_ = rank ? job_.exit_code_of(*rank) : 1;
  ending_.on_failure(Clock::now());
}

void JobEnd::fail_start(const std::string& why) {
  if (std::exchange(start_failed_, true) || signal_ != 0) return;
  output_.say("ruedarun: " + why);
  if (!failure_) failure_ = 1;
  ending_.on_terminate(Clock::now());
  check_all_ended();
}

// The agents wait for each other's ranks, so that what one of them leaves behind lives as long as the job.
void JobEnd::check_all_ended() {
  const bool over = job_.all_ended() || (ending_.has_begun() && job_.none_runs());
  if (!over || told_.over) return;
  told_.over = true;
  ending_.on_all_ended(Clock::now());
  still_ending();
  agents_.tell_all(agents::JobOver{});
  starter_.end_those([&](int host) { return !job_.is_ready(host); });
}

void JobEnd::still_ending() {
  ending_.on_output(Clock::now());
  farewell_ = Clock::now() + kFarewell;
}

// A reader that has gone counts as SIGPIPE. Any other error loses words of ranks, and is told.
void JobEnd::check_output() {
  const std::error_code lost = output_.lost(), lost_copy = output_.lost_copy();
  const std::error_code why = lost ? lost : lost_copy;
  if (!why || told_.output_lost || signal_ != 0) return;
  if (lost == std::errc::broken_pipe) {
    if (!failure_) end_by(SIGPIPE);
    return;
  }
  told_.output_lost = true;
  output_.say(fmt::format("ruedarun: cannot write {}: {}",
                          lost ? "the output" : "a file of --output-filename", why.message()));
  if (!failure_) failure_ = 1;
  if (lost) ending_.on_terminate(Clock::now());
}

void JobEnd::act(Clock::time_point now) {
  if (farewell_ && now >= *farewell_) give_up_agents();
  if (ending_.has_begun() || job_.all_ended()) stop_after_.on_end();
  for (StopAfter::Act act; (act = stop_after_.next_act(now)) != StopAfter::Act::nothing;)
    act == StopAfter::Act::ask ? ask_to_stop() : give_up_asking();
  for (Ending::Act act; (act = ending_.next_act(now)) != Ending::Act::nothing;) {
    if (act == Ending::Act::terminate) agents_.tell_all(agents::SendSignal{SIGTERM});
    if (act == Ending::Act::kill) agents_.tell_all(agents::SendSignal{SIGKILL});
    if (act == Ending::Act::force) force();
  }
}

std::optional<JobEnd::Clock::time_point> JobEnd::next_time() const {
  std::optional<Clock::time_point> next;
  for (const std::optional<Clock::time_point>& time :
       {ending_.next_time(), stop_after_.next_time(), farewell_})
    if (time) next = std::min(next.value_or(*time), *time);
  return next;
}

void JobEnd::ask_to_stop() {
  output_.say(stop_after_.is_wish() ? "ruedarun: the page of this job: the ranks are asked to stop"
                                    : fmt::format("ruedarun: --stop-after {}s: the ranks are asked to stop",
                                                  options_.stop_after.count()));
  agents_.tell_all(agents::SendSignal{SIGTERM});
}

void JobEnd::give_up_asking() {
  output_.say(
      fmt::format("ruedarun: ranks still run {} s after they were asked to stop, and are ended; give them "
                  "more time by --grace",
                  options_.grace.count()));
  if (!failure_) failure_ = 128 + SIGTERM;
  ending_.on_terminate(Clock::now());
}

void JobEnd::give_up_agents() {
  farewell_.reset();
  std::string left;
  for (const std::string& command : starter_.commands()) left += (left.empty() ? "" : "; ") + command;
  output_.say(fmt::format("ruedarun: all ranks have ended, and these have not within {} s: {}",
                          kFarewell.count(), left.empty() ? "the agent on this machine" : left));
  if (!failure_) failure_ = 1;
  force();
}

void JobEnd::force() {
  forced_ = true;
  agents_.close();
}

void JobEnd::say_the_end() {
  if (failure_ && !start_failed_ && !job_.all_started())
    output_.say(fmt::format("ruedarun: {} did not start", job_.missing()));
  if (stop_after_.asked_at() && job_.all_ended() && !failure_ && signal_ == 0) {
    const std::chrono::duration<double> took = Clock::now() - *stop_after_.asked_at();
    output_.say(
        fmt::format("ruedarun: all ranks have ended, {:.1f} s after they were asked to", took.count()));
  }
  if (signal_ != 0 && signal_ != SIGPIPE)
    output_.say(fmt::format("ruedarun: ended by {}", ::strsignal(signal_)));
}

int JobEnd::exit_status() const {
  if (signal_ != 0) return 128 + signal_;
  return failure_.value_or(0);
}

}  // namespace rueda
