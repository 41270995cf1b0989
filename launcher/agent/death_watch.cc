// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/death_watch.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <mutex>
#include <system_error>
#include <utility>

namespace rueda {

// Shared with the thread.
struct DeathWatch::State {
  struct Watched {
    std::size_t number = 0;
    RobustFutex* futex = nullptr;
  };

  Descriptor news{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  FutexWord changes{0};  // of `watched`, and of `over`
  std::mutex mutex;
  std::vector<Watched> watched;
  std::vector<std::size_t> dead;
  bool over = false;

  void change() {
    changes.fetch_add(1);
    wake_all_on(changes);
  }
  // Takes those that have died out of `watched`. False: it is over.
  bool look(std::vector<FutexWord*>& words, std::vector<std::uint32_t>& values);
};

DeathWatch::DeathWatch() : state_(std::make_unique<State>()) {
  if (!state_->news)
    throw std::system_error(errno, std::generic_category(), "cannot wait for the ends of ranks");
  thread_ = std::thread([this] { watch(*state_); });
}

DeathWatch::~DeathWatch() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->over = true;
    state_->change();
  }
  thread_.join();
}

void DeathWatch::add(std::size_t number, RobustFutex* futex) {
  if (futex == nullptr) return;
  const std::lock_guard lock(state_->mutex);
  if (state_->watched.size() + 1 >= RobustFutex::kMostAwaited) return;
  state_->watched.push_back({number, futex});
  state_->change();
}

int DeathWatch::descriptor() const { return state_->news.number(); }

std::vector<std::size_t> DeathWatch::take_dead() {
  std::uint64_t count = 0;
  static_cast<void>(!::read(state_->news.number(), &count, sizeof count));
  const std::lock_guard lock(state_->mutex);
  return std::exchange(state_->dead, {});
}

// Values first: what changes between the look and the sleep keeps the thread from sleeping.
bool DeathWatch::State::look(std::vector<FutexWord*>& words, std::vector<std::uint32_t>& values) {
  const std::lock_guard lock(mutex);
  if (over) return false;
  words.assign(1, &changes);
  values.assign(1, changes.load());
  std::vector<Watched> living;
  for (const Watched& each : watched) {
    const std::uint32_t value = each.futex->word().load();
    if ((value & FUTEX_OWNER_DIED) != 0) {
      dead.push_back(each.number);
      const std::uint64_t one = 1;
      static_cast<void>(!::write(news.number(), &one, sizeof one));
      continue;
    }
    living.push_back(each);
    words.push_back(&each.futex->word());
    values.push_back(value);
  }
  watched = std::move(living);
  return true;
}

void DeathWatch::watch(State& state) {
  std::vector<FutexWord*> words;
  std::vector<std::uint32_t> values;
  while (state.look(words, values) && RobustFutex::await_change(words, values)) {}
}

}  // namespace rueda
