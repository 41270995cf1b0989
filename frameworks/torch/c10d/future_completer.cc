// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/c10d/future_completer.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include "frameworks/torch/c10d/group_work.h"

namespace rueda {
namespace {

// Operations need not end in their order: those between two ranks may overtake others.
constexpr std::chrono::milliseconds kLookAfterOthers{1};

thread_local const FutureCompleter* completer_here = nullptr;
thread_local bool in_calls = false;
std::atomic<RunWait> wait_runner{[](const std::function<void()>& wait) { wait(); }};

}  // namespace

bool complete_futures_in_calls(bool whether) { return std::exchange(in_calls, whether); }

void run_waits_of_calls_by(RunWait run) { wait_runner.store(run); }
RunWait run_wait_of_call() { return wait_runner.load(); }

bool FutureCompleter::add(c10::intrusive_ptr<GroupWork> work) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return false;
    added_.push_back(std::move(work));
    if (!thread_.joinable()) {
      thread_ = std::thread([this] { run(); });
      pthread_setname_np(thread_.native_handle(), "rueda-futures");
    }
  }
  changed_.notify_one();
  return true;
}

bool FutureCompleter::on_its_thread() const { return completer_here == this; }

bool FutureCompleter::leaves_it_to_the_caller() const { return in_calls || on_its_thread(); }

void FutureCompleter::end(Duration grace) {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    if (!thread_.joinable()) closed_ = true;
    until_ = clock_now() + grace;
  }
  changed_.notify_one();
}

void FutureCompleter::stop(Duration grace) {
  end(grace);
  if (thread_.joinable() && !on_its_thread()) thread_.join();
}

bool FutureCompleter::running() {
  const std::lock_guard lock(mutex_);
  return thread_.joinable() && !over_;
}

// Waits for more where there is nothing else to do. False: there will be no more.
bool FutureCompleter::take_next(Works& works) {
  std::unique_lock lock(mutex_);
  if (works.empty()) changed_.wait(lock, [&] { return ending_ || !added_.empty(); });
  std::move(added_.begin(), added_.end(), std::back_inserter(works));
  added_.clear();
  if (ending_ && (works.empty() || clock_now() >= until_)) closed_ = true;
  return !closed_;
}

void FutureCompleter::complete_finished(Works& works) const {
  for (auto& work : works) {
    if (work->ends_by(Time::min()) || work->times_out()) work.reset();
  }
  std::erase_if(works, [](const auto& work) { return !work; });
}

void FutureCompleter::complete_all() {
  Works works;
  while (take_next(works)) {
    if (works.front()->ends_by(clock_now() + kLookAfterOthers)) {
      works.pop_front();
    } else {
      complete_finished(works);
    }
  }
  for (const auto& work : works) work->give_up();
}

void FutureCompleter::run() {
  completer_here = this;
  complete_all();
  const std::lock_guard lock(mutex_);
  over_ = true;
}

}  // namespace rueda
