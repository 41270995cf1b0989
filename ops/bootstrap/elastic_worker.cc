// SPDX-License-Identifier: Apache-2.0
#include "ops/bootstrap/elastic_worker.h"

#include <fmt/format.h>

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/base/number.h"
#include "core/base/time.h"
#include "core/base/wait_check.h"

namespace rueda {
namespace {

using namespace std::chrono_literals;

constexpr int kLookMs = 20;
constexpr Duration kAskAgain = 500ms, kAskAgainLater = 8s;  // a packet may not have had room

std::optional<Worker> number_of_worker() {
  const char* text = std::getenv("RUEDA_WORKER");
  if (text == nullptr || !AgentLine::of_this_process()) return std::nullopt;
  return number_from<Worker>(text);
}

}  // namespace

ElasticWorker::ElasticWorker(Worker number, AgentLine& line) : number_(number), line_(line) {
  if (Descriptor file = inherited_descriptor("RUEDA_ROBUST_FUTEX")) futex_.emplace(std::move(file));
  line_.begin_to_listen();
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are for the program's threads
  std::thread([this] { listen(); }).detach();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// Lives as long as the process. Without an agent nothing comes any more, and this process is ended.
void ElasticWorker::listen() {
  if (futex_ && futex_->get() != nullptr) futex_->get()->hold();
  while (line_.wait_for_packet()) {
    news_.fetch_add(1);
    const std::lock_guard lock(mutex_);
    if (const std::shared_ptr<EventCount> doorbell = doorbell_.lock()) doorbell->ring();
  }
}

void ElasticWorker::ring_for_news(const std::shared_ptr<EventCount>& doorbell) {
  const std::lock_guard lock(mutex_);
  doorbell_ = doorbell;
}

ElasticWorker* ElasticWorker::of_this_process() {
  // Threads may use it until the process ends.
  static ElasticWorker* const worker = [] {
    const std::optional<Worker> number = number_of_worker();
    return number ? new ElasticWorker(*number, AgentLine::of_this_process()) : nullptr;
  }();
  return worker;
}

std::optional<Generation> ElasticWorker::tried() const {
  const std::lock_guard lock(mutex_);
  return tried_;
}

Generation ElasticWorker::next_generation() {
  RegularLooks looks;
  Time ask_at{};
  Duration until_asked = kAskAgain;
  const std::optional<Generation> last = tried();
  while (true) {
    if (clock_now() >= ask_at) {
      line_.tell_state(last ? fmt::format("ready {}", last->number) : "fresh");
      ask_at = clock_now() + until_asked;
      until_asked = std::min(2 * until_asked, kAskAgainLater);
    }
    const std::uint64_t packets = line_.packets();
    const std::optional<Generation> newest = line_.membership().newest;
    if (newest && (!last || newest->number > last->number)) {
      if (newest->workers.contains(number_)) {
        const std::lock_guard lock(mutex_);
        return *(tried_ = newest);
      }
      if (line_.membership().retires)
        throw LeftJob(Status::not_initialized(fmt::format(
            "init: worker {} has left the job, as ruedarun has asked it to: its host is to go.", number_)));
      if (has_formed_)
        throw NotInitialized(Status::not_initialized(fmt::format(
            "init: the job goes on without this process, worker {}: it was taken for lost.", number_)));
    }
    line_.wait(packets, kLookMs);
    looks.look_if_due();
  }
}

bool ElasticWorker::is_superseded(std::uint64_t generation) const {
  const std::optional<Generation> newest = line_.membership().newest;
  return newest && newest->number > generation;
}

void ElasticWorker::tell_formed() {
  has_formed_ = true;
  line_.tell_state(fmt::format("formed {}", tried()->number));
}

void ElasticWorker::tell_state() { line_.tell_state("state"); }

std::optional<MembershipChange> ElasticWorker::change() const {
  const AgentLine::Membership now = line_.membership();
  const std::optional<Generation> present = tried();
  if (!present || !now.newest) return std::nullopt;
  if (now.newest->number > present->number) {
    const bool added = !(now.newest->workers - present->workers).empty();
    const bool removed = !(present->workers - now.newest->workers).empty();
    return MembershipChange{added, removed || !added, now.since};
  }
  if (now.joiners_wait || now.leavers_wait)
    return MembershipChange{now.joiners_wait, now.leavers_wait, now.since};
  return std::nullopt;
}

}  // namespace rueda
