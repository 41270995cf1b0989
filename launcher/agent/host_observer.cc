// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/host_observer.h"

#include <algorithm>
#include <utility>

namespace rueda {
namespace {

constexpr std::size_t kMostWaiting = 48 << 10;  // for ruedarun, of bytes: then news wait
constexpr auto kUntilRoom = std::chrono::milliseconds(20);

}  // namespace

void HostObserver::take_page(int rank, const Descriptor& file) {
  std::optional<MappedTraining> page = MappedTraining::map(file);
  const auto found = ranks_.find(rank);
  if (page && found != ranks_.end()) found->second.observer.use(std::move(*page));
}

void HostObserver::note_process(int rank, pid_t process) {
  if (const auto found = ranks_.find(rank); found != ranks_.end()) found->second.process = process;
}

void HostObserver::note_end(int number, SupervisorLine& supervisor) {
  const auto found = ranks_.find(number);
  if (found == ranks_.end()) return;
  Rank& rank = found->second;
  rank.process = 0;
  if (!due_) return;
  rank.observer.look(0, Clock::now());
  while (rank.observer.has_more() && supervisor.unsent() < kMostWaiting)
    supervisor.tell(rank.observer.take());
}

void HostObserver::obey(const agents::Watch& order) {
  interval_ = std::chrono::milliseconds(order.milliseconds);
  look_at_.reset();
  due_.reset();
  if (order.milliseconds > 0) due_ = look_at_ = Clock::now();
}

void HostObserver::act(Clock::time_point now, SupervisorLine& supervisor) {
  if (!due_ || now < *due_) return;
  if (now >= *look_at_ && supervisor.unsent() < kMostWaiting) {
    look_at_ = std::max(*look_at_ + interval_, now + interval_ / 2);
    for (auto& [number, rank] : ranks_) rank.observer.look(rank.process, now);
    supervisor.tell(load_.read());
  }
  bool more = false;
  for (auto& [number, rank] : ranks_) {
    while (rank.observer.has_more() && supervisor.unsent() < kMostWaiting)
      supervisor.tell(rank.observer.take());
    more = more || rank.observer.has_more();
  }
  due_ = more || now >= *look_at_ ? now + kUntilRoom : *look_at_;
}

}  // namespace rueda
