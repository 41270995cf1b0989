// SPDX-License-Identifier: Apache-2.0
#include "launcher/dump/job_dumps.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace rueda {
namespace {

constexpr auto kBetweenOccasions = std::chrono::seconds(10);
constexpr int kMostOccasions = 20;                 // of a job: the disk is not to be filled
constexpr std::uint32_t kFirstRequest = 1u << 31;  // others are numbered from 0

// Of a dump for which there was no thread, or too little memory.
WrittenDump failed_dump(const std::string& why) {
  WrittenDump dump;
  dump.error = fmt::format("no dump: {}", why);
  return dump;
}

}  // namespace

JobDumps::JobDumps(std::string folder, Surroundings surroundings)
    : folder_(std::move(folder)),
      surroundings_(std::move(surroundings)),
      written_one_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      requests_(kFirstRequest) {
  if (!written_one_) throw std::system_error(errno, std::generic_category(), "cannot make an eventfd");
}

JobDumps::~JobDumps() {
  if (writer_.joinable()) writer_.join();
}

void JobDumps::on_occasion(const std::string& reason, Time now) {
  const bool is_soon = last_ && now < *last_ + kBetweenOccasions;
  if (folder_.empty() || is_soon || now_ || occasions_ == kMostOccasions) return;
  last_ = now;
  ++occasions_;
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
  const agents::Request request = requests_.begin(agents::RequestKind::recordings, "", hosts_, now);
  request_ = request.number;
  surroundings_.tell(request);
}

void JobDumps::act(Time now) {
  if (request_ != 0) {
    if (std::optional<RankReplies> replies = requests_.take(request_, now))
      write(std::move(replies->by_rank));
  }
  std::uint64_t count = 0;
  if (::read(written_one_.number(), &count, sizeof count) == sizeof count) conclude();
  if (!now_ && next_) {
    now_ = std::exchange(next_, std::nullopt);
    begin(now);
  }
}

// The thread gets no signals: they are for the loop.
void JobDumps::write(std::map<int, std::string> answers) {
  request_ = 0;
  DumpFacts facts = surroundings_.facts();
  facts.reason = now_->reason;
  const auto write_all = [this, facts = std::move(facts), answers = std::move(answers)] {
    try {
      written_ = write_dump(folder_.empty() ? "." : folder_, facts, answers);
    } catch (const std::exception& error) {
      written_ = failed_dump(error.what());
    }
    const std::uint64_t one = 1;
    static_cast<void>(::write(written_one_.number(), &one, sizeof one));
  };
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    writer_ = std::thread(write_all);
  } catch (const std::system_error& error) {
    written_ = failed_dump(error.what());
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!writer_.joinable()) conclude();
}

void JobDumps::conclude() {
  if (writer_.joinable()) writer_.join();
  const std::optional<Dump> dump = std::exchange(now_, std::nullopt);
  const std::optional<WrittenDump> written = std::exchange(written_, std::nullopt);
  if (!dump || !written) return;
  if (!written->error.empty())
    surroundings_.say(fmt::format("ruedarun: {}", written->error));
  else
    surroundings_.say(fmt::format("ruedarun: {}what each rank was doing is in {}; see job.txt there, or {}",
                                  dump->reason.empty() ? "" : dump->reason + " ", written->folder,
                                  "torchfrtrace of PyTorch"));
  for (const Done& done : dump->done) done(*written);
}

void JobDumps::finish() {
  if (request_ != 0) act(Time::max());
  if (writer_.joinable()) conclude();
}

}  // namespace rueda
