// SPDX-License-Identifier: Apache-2.0
#include "launcher/page/job_actions.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ranges>
#include <system_error>
#include <utility>
#include <vector>

#include "core/base/number.h"
#include "launcher/system/json_text.h"
#include "launcher/view/stack_groups.h"

namespace rueda {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr std::uint64_t kSteps = 20;  // of a timeline
constexpr std::uint64_t kMostSteps = 100'000;
constexpr auto kNotice = 1s;        // from a request to its first step
constexpr auto kLongestStep = 60s;  // as the ranks have it, which write the file
constexpr auto kUntilFile = 30s;    // from the last step to the file of all ranks

std::string error(const std::string& words) { return json_text({{"error", words}}); }

// In a thread. No memory is no reason for an end of the job.
std::string stacks_answer(const RankReplies& replies, const json& ranks) {
  try {
    json stacks = stacks_of_ranks(replies.by_rank, {replies.silent.begin(), replies.silent.end()}, ranks);
    stacks["text"] = stacks_text(stacks, true);
    return json_text(stacks);
  } catch (const std::exception& problem) {
    return error(fmt::format("no stacks: {}", problem.what()));
  }
}

}  // namespace

// A program may begin another training, whose steps count from 0.
void JobActions::note_step(int rank, std::uint64_t step, Time now) {
  steps_.of_ranks[rank] = step;
  const auto last = std::ranges::max(steps_.of_ranks | std::views::values);
  if (last != steps_.last) steps_.moved = now;
  steps_.last = last;
  const std::chrono::duration<double> passed = now - steps_.since;
  if (steps_.since != Time{} && passed < 500ms) return;
  if (steps_.since != Time{} && steps_.last >= steps_.counted)
    steps_.per_second = static_cast<double>(steps_.last - steps_.counted) / passed.count();
  steps_.counted = steps_.last;
  steps_.since = now;
}

void JobActions::act(EventFeed& feed, const EventFeed::Wanted& wanted, bool knows_steps, Time now) {
  for (const Inquiry inquiry : {Inquiry::stacks, Inquiry::dump, Inquiry::timeline, Inquiry::stop}) {
    const bool can_begin = inquiry != Inquiry::timeline || knows_steps;
    if (wanted.wants(inquiry) && can_begin && !pending_.contains(inquiry) && !made_.contains(inquiry))
      begin(inquiry, feed, now);
  }
  give_answers(feed, now);
  look_for_timeline(now);
}

void JobActions::give_answers(EventFeed& feed, Time now) {
  for (auto each = pending_.begin(); each != pending_.end();) {
    std::optional<RankReplies> replies = requests_.take(each->second, now);
    if (replies) answer(feed, each->first, std::move(*replies));
    each = replies ? pending_.erase(each) : std::next(each);
  }
  for (auto each = made_.begin(); each != made_.end();) {
    const bool is_ready = each->second.wait_for(0s) == std::future_status::ready;
    if (is_ready) feed.answer(each->first, each->second.get());
    each = is_ready ? made_.erase(each) : std::next(each);
  }
}

// The stacks of many ranks are long: the loop has no time for them.
void JobActions::answer(EventFeed& feed, Inquiry inquiry, RankReplies replies) {
  if (inquiry == Inquiry::timeline) return feed.answer(inquiry, timeline_answer(replies));
  try {
    made_[inquiry] = std::async(std::launch::async, stacks_answer, std::move(replies), surroundings_.ranks());
  } catch (const std::system_error&) {
    made_.erase(inquiry);
    feed.answer(inquiry, error("ruedarun cannot make a thread for the stacks"));
  }
}

void JobActions::begin(Inquiry inquiry, EventFeed& feed, Time now) {
  switch (inquiry) {
    case Inquiry::status:
    case Inquiry::metrics: return;
    case Inquiry::stacks: return request(inquiry, agents::RequestKind::stacks, "", now);
    case Inquiry::dump: return begin_dump(feed);
    case Inquiry::timeline: return begin_timeline(feed, now);
    case Inquiry::stop:
      surroundings_.stop();
      surroundings_.say("stop",
                        "the ranks are asked to save and to stop, at the wish of somebody who watches");
      return feed.answer(inquiry, json_text({{"asked", true}}));
  }
}

void JobActions::begin_dump(EventFeed& feed) {
  if (dumps_) return;
  dumps_ = true;
  surroundings_.dump([this, &feed](const WrittenDump& dump) {
    dumps_ = false;
    feed.answer(Inquiry::dump,
                dump.error.empty()
                    ? json_text({{"folder", dump.folder}, {"files", dump.files}, {"summary", dump.summary}})
                    : error(dump.error));
  });
}

// Ranks hear of it at different times, and none may have passed the first step by then.
void JobActions::begin_timeline(EventFeed& feed, Time now) {
  const std::string words = feed.words(Inquiry::timeline);
  const std::optional<std::uint64_t> steps = words.empty() ? kSteps : number_from<std::uint64_t>(words);
  if (!steps || *steps == 0 || *steps > kMostSteps)
    return feed.answer(Inquiry::timeline,
                       error(fmt::format("a timeline has 1 to {} steps, not '{}'", kMostSteps, words)));
  if (awaited_)
    return feed.answer(Inquiry::timeline, error(fmt::format("{} is being written", awaited_->file)));
  if (steps_.last == 0)
    return feed.answer(Inquiry::timeline,
                       error("the program has not ended a step yet: see end_step() of rueda/training.h"));
  const double notice = std::ceil(steps_.per_second * std::chrono::duration<double>(kNotice).count());
  const std::uint64_t first = steps_.last + 1 + static_cast<std::uint64_t>(std::max(1.0, notice));
  const std::time_t time = std::time(nullptr);
  awaited_ = {.file = fmt::format("{}/rueda-timeline-{:%Y%m%d-%H%M%S}-{}.json", surroundings_.folder,
                                  fmt::localtime(time), ::getpid()),
              .first = first,
              .last = first + *steps,
              .over = {}};
  request(Inquiry::timeline, agents::RequestKind::timeline,
          agents::timeline_request_text({awaited_->first, awaited_->last, awaited_->file}), now);
}

// Of living ranks; spares have no steps.
void JobActions::request(Inquiry inquiry, agents::RequestKind kind, std::string text, Time now) {
  std::map<int, int> asked = ranks_;
  std::erase_if(asked, [this](const auto& each) { return ended_.contains(each.first); });
  if (kind == agents::RequestKind::timeline)
    for (const json& rank : surroundings_.ranks())
      if (!rank.contains("rank")) asked.erase(rank.at("worker").get<int>());
  const agents::Request request = requests_.begin(kind, std::move(text), asked, now);
  pending_[inquiry] = request.number;
  surroundings_.tell(request);
}

std::string JobActions::timeline_answer(const RankReplies& replies) {
  std::map<int, std::string> names;
  for (const json& rank : surroundings_.ranks()) names[rank.at("worker").get<int>()] = rank.at("name");
  std::vector<std::string> refusals;
  for (const auto& [rank, words] : replies.by_rank)
    if (!words.empty()) refusals.push_back(fmt::format("{}: {}", names[rank], words));
  for (const int rank : replies.silent) refusals.push_back(fmt::format("{} does not answer", names[rank]));
  const Timeline timeline = *awaited_;
  if (refusals.size() == replies.by_rank.size() + replies.silent.size()) {
    awaited_.reset();
    return error(refusals.empty() ? "no rank runs" : fmt::format("no timeline: {}", refusals.front()));
  }
  return json_text({{"file", timeline.file},
                    {"first_step", timeline.first},
                    {"last_step", timeline.last - 1},
                    {"refusals", refusals}});
}

// Rank 0 puts the files of all ranks together if it can reach them.
void JobActions::look_for_timeline(Time now) {
  if (!awaited_ || pending_.contains(Inquiry::timeline)) return;
  if (!awaited_->over && steps_.last >= awaited_->last) awaited_->over = now;
  const bool all_ended =
      std::ranges::all_of(ranks_ | std::views::keys, [this](int rank) { return ended_.contains(rank); });
  if (!awaited_->over && !all_ended && now > steps_.moved + kLongestStep) {
    surroundings_.say("timeline",
                      fmt::format("no timeline: no step has ended for {} s", kLongestStep.count()));
    awaited_.reset();
    return;
  }
  if (!awaited_->over && !all_ended) return;
  const Time over = awaited_->over.value_or(now);
  if (!all_ended && now < over + 2s) return;
  std::error_code none;
  const bool is_there = std::filesystem::is_regular_file(awaited_->file, none);
  if (!is_there && !all_ended && now < over + kUntilFile) return;
  surroundings_.say("timeline", is_there
                                    ? fmt::format("steps {} to {}: {}; open it in ui.perfetto.dev",
                                                  awaited_->first, awaited_->last - 1, awaited_->file)
                                    : fmt::format("no timeline: {} has not been written", awaited_->file));
  awaited_.reset();
}

}  // namespace rueda
