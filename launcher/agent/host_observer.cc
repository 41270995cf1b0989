// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/host_observer.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "core/observe/training/timeline_request.h"
#include "launcher/protocol/request.h"
#include "launcher/stacks/process_stacks.h"

namespace rueda {
namespace {

constexpr std::size_t kMostWaiting = 48 << 10;  // for ruedarun, of bytes: then news wait
constexpr auto kUntilRoom = std::chrono::milliseconds(20);
constexpr auto kBetweenLoads =
    std::chrono::milliseconds(500);  // of the host: to read one takes longer than a look

bool is_alive(const Descriptor& process) {
  return ::syscall(SYS_pidfd_send_signal, process.number(), 0, nullptr, 0) == 0;
}

// When it is its turn, another process may have its number. Then the answer is empty.
RankAnswers::Make stacks_later(pid_t process, std::shared_ptr<PythonStacks> python,
                               std::shared_ptr<const SealedMemory> page) {
  auto handle = std::make_shared<const Descriptor>(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
  return [process, python = std::move(python), handle = std::move(handle), page = std::move(page)] {
    if (!is_alive(*handle)) return std::string();
    std::string stacks =
        stacks_of(process, python, [&] { return page ? read_training_moment(page->bytes()) : std::nullopt; });
    return is_alive(*handle) ? std::move(stacks) : std::string();
  };
}

}  // namespace

void HostObserver::take_page(int rank, const Descriptor& file) {
  std::optional<SealedMemory> page = SealedMemory::map(file, sizeof(TrainingPage));
  const auto found = ranks_.find(rank);
  if (page && found != ranks_.end()) found->second.observer.use(std::move(*page));
}

void HostObserver::take_requests(int rank, const Descriptor& file) {
  std::optional<SealedMemory> page =
      SealedMemory::map(file, sizeof(TimelineRequestPage), SealedMemory::Access::write);
  const auto found = ranks_.find(rank);
  if (page && found != ranks_.end()) found->second.requests = std::move(page);
}

// Returns "" or the reason of a refusal.
std::string HostObserver::ask_for_timeline(Rank& rank, const std::string& text) {
  if (!rank.requests || rank.process == 0) return "it is no process of Rueda, or has ended";
  const std::optional<TimelineRequest> request = agents::timeline_request_from(text);
  if (!request) return "the request has no meaning";
  auto* page = static_cast<TimelineRequestPage*>(rank.requests->data());
  return page->write(*request) ? "" : "the path is too long";
}

RankAnswers::Make HostObserver::answer_to(const agents::Request& request, int number, Rank& rank) {
  if (request.kind == agents::RequestKind::recordings) return recordings_.later(number);
  if (request.kind == agents::RequestKind::stacks && rank.main_process != 0)
    return stacks_later(rank.main_process, rank.python, rank.observer.page());
  return [] { return std::string(); };
}

void HostObserver::ask(const agents::Request& request) {
  for (auto& [number, rank] : ranks_) {
    if (request.kind == agents::RequestKind::timeline)
      answers_.answer(request.number, number, ask_for_timeline(rank, request.text));
    else
      answers_.ask(request, number, answer_to(request, number, rank));
  }
}

void HostObserver::note_main_process(int number, pid_t process, std::shared_ptr<PythonStacks> python) {
  const auto found = ranks_.find(number);
  if (found == ranks_.end()) return;
  found->second.main_process = process;
  found->second.python = std::move(python);
}

void HostObserver::note_process(int rank, pid_t process) {
  if (const auto found = ranks_.find(rank); found != ranks_.end()) found->second.process = process;
}

void HostObserver::note_end(int number, SupervisorLine& supervisor) {
  recordings_.note_end(number);
  const auto found = ranks_.find(number);
  if (found == ranks_.end()) return;
  Rank& rank = found->second;
  rank.process = 0;
  if (!due_) return;
  rank.needs_last_look = true;
  if (!tell_of(rank, supervisor)) due_ = std::min(*due_, Clock::now() + kUntilRoom);
}

TrainingFailure HostObserver::recent_failure(int rank) const {
  const auto found = ranks_.find(rank);
  return found == ranks_.end() ? TrainingFailure() : found->second.observer.recent_failure(Clock::now());
}

// False where there is no room for all of its news.
bool HostObserver::tell_of(Rank& rank, SupervisorLine& supervisor) {
  while (supervisor.unsent() < kMostWaiting) {
    if (rank.observer.has_more()) {
      supervisor.tell(rank.observer.take());
    } else if (std::exchange(rank.needs_last_look, false)) {
      rank.observer.look(0, Clock::now());
    } else {
      return true;
    }
  }
  return !rank.observer.has_more() && !rank.needs_last_look;
}

void HostObserver::end() {
  if (!due_) return;
  look_at_.reset();
  due_ = Clock::now();
  for (auto& [number, rank] : ranks_)
    if (std::exchange(rank.process, 0) != 0) rank.needs_last_look = true;
}

void HostObserver::obey(const agents::Watch& order) {
  interval_ = std::chrono::milliseconds(order.milliseconds);
  look_at_.reset();
  due_.reset();
  load_at_.reset();
  if (order.milliseconds > 0) due_ = look_at_ = Clock::now();
}

std::optional<HostObserver::Clock::time_point> HostObserver::next_time() const {
  const auto answers = answers_.next_time();
  return due_ && answers ? std::min(*due_, *answers) : due_ ? due_ : answers;
}

void HostObserver::act(Clock::time_point now, SupervisorLine& supervisor) {
  answers_.act(supervisor);
  if (due_ && now >= *due_) tell_news(now, supervisor);
}

void HostObserver::tell_news(Clock::time_point now, SupervisorLine& supervisor) {
  if (look_at_ && now >= *look_at_ && supervisor.unsent() < kMostWaiting) {
    look_at_ = std::max(*look_at_ + interval_, now + interval_ / 2);
    for (auto& [number, rank] : ranks_) rank.observer.look(rank.process, now);
    if (!load_at_ || now >= *load_at_ + kBetweenLoads) tell_load(now, supervisor);
  }
  bool more = false;
  for (auto& [number, rank] : ranks_) more = !tell_of(rank, supervisor) || more;
  due_ = look_at_;
  if (more || (look_at_ && now >= *look_at_)) due_ = now + kUntilRoom;
}

void HostObserver::tell_load(Clock::time_point now, SupervisorLine& supervisor) {
  load_at_ = now;
  agents::HostLoad load = load_.read();
  load.gpus = gpus_.read();
  supervisor.tell(load);
}

}  // namespace rueda
