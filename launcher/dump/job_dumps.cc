// SPDX-License-Identifier: Apache-2.0
#include "launcher/dump/job_dumps.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include "launcher/system/signals.h"

namespace rueda {
namespace {

namespace fs = std::filesystem;

constexpr auto kBetweenLooks = std::chrono::milliseconds(10);  // at the files
constexpr auto kBetweenOccasions = std::chrono::seconds(10);
constexpr int kMostOccasions = 20;                 // of a job: the disk is not to be filled
constexpr std::uint32_t kFirstRequest = 1u << 31;  // others are numbered from 1

}  // namespace

JobDumps::JobDumps(std::string folder, Surroundings surroundings)
    : folder_(std::move(folder)), surroundings_(std::move(surroundings)), requests_(kFirstRequest) {}

JobDumps::~JobDumps() {
  if (writer_.joinable()) writer_.join();
}

void JobDumps::on_occasion(const std::string& reason, Time now) {
  const bool is_soon = last_ && now < *last_ + kBetweenOccasions;
  if (folder_.empty() || is_soon || occasions_ == kMostOccasions) return;
  last_ = now;
  ++occasions_;
  if (now_) {
    if (!next_) next_.emplace();
    if (next_->reason.empty()) next_->reason = reason;
    return;
  }
  now_ = Dump{.reason = reason};
  begin(now);
}

void JobDumps::ask(Done done, Time now) {
  if (now_) {
    if (!next_) next_.emplace();
    next_->done.push_back(std::move(done));
    return;
  }
  now_.emplace().done.push_back(std::move(done));
  begin(now);
}

void JobDumps::begin(Time now) {
  std::map<int, int> asked = hosts_;
  std::erase_if(asked, [](const auto& each) { return each.second < 0; });
  const agents::Request request = requests_.begin(agents::RequestKind::recordings, "", asked, now);
  request_ = request.number;
  surroundings_.tell(request);
}

std::vector<int> JobDumps::ranks() const {
  std::vector<int> ranks;
  for (const auto& [rank, host] : hosts_) ranks.push_back(rank);
  return ranks;
}

std::optional<JobDumps::Time> JobDumps::next_time() const {
  if (writer_.joinable()) return std::chrono::steady_clock::now() + kBetweenLooks;
  return requests_.next_time();
}

void JobDumps::act(Time now) {
  if (!now_) return;
  if (request_ != 0) {
    std::optional<RankReplies> replies = requests_.take(request_, now);
    if (replies) write(std::move(replies->by_rank));
  }
  if (is_written_.load()) conclude();
  if (!now_ && next_) {
    now_ = std::exchange(next_, std::nullopt);
    begin(now);
  }
}

void JobDumps::write(std::map<int, std::string> answers) {
  request_ = 0;
  DumpFacts facts = surroundings_.facts();
  facts.reason = now_->reason;
  const auto write_all = [this, facts = std::move(facts), answers = std::move(answers)] {
    try {
      written_ =
          write_dump((folder_.empty() ? fs::current_path() : fs::absolute(folder_)).string(), facts, answers);
    } catch (const std::exception& error) {
      written_.emplace().error = fmt::format("no dump: {}", error.what());
    }
    is_written_.store(true);
  };
  try {
    writer_ = thread_without_signals(write_all);
  } catch (const std::system_error& error) {
    written_.emplace().error = fmt::format("no dump, since there is no thread for it: {}", error.what());
    is_written_.store(true);
  }
}

void JobDumps::conclude() {
  if (writer_.joinable()) writer_.join();
  is_written_.store(false);
  const Dump dump = *std::exchange(now_, std::nullopt);
  const WrittenDump written = *std::exchange(written_, std::nullopt);
  surroundings_.say(
      written.error.empty()
          ? fmt::format("{}what each rank was doing is in {}; read job.txt, or run torchfrtrace",
                        dump.reason.empty() ? "" : dump.reason + "; ", written.folder)
          : written.error);
  for (const Done& done : dump.done) done(written);
}

// No other answers come for the next one, so that the answers of this one are for both.
void JobDumps::finish() {
  if (!now_) return;
  std::optional<Dump> next = std::exchange(next_, std::nullopt);
  if (request_ != 0) {
    if (next) {
      if (now_->reason.empty()) now_->reason = next->reason;
      std::ranges::move(next->done, std::back_inserter(now_->done));
      next.reset();
    }
    act(Time::max());
  }
  if (now_) conclude();
  if (!next) return;
  WrittenDump none;
  none.error = "no dump: the job has ended";
  if (!next->reason.empty()) surroundings_.say(fmt::format("{}; {}", next->reason, none.error));
  for (const Done& done : next->done) done(none);
}

}  // namespace rueda
