// SPDX-License-Identifier: Apache-2.0
#include "launcher/stacks/process_snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "launcher/system/descriptor.h"

namespace rueda {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostThreads = 512;
constexpr std::size_t kMostStack = 256 << 10;  // of a thread
constexpr std::size_t kMostOfProcess = 64 << 20;
constexpr auto kUntilStopped = 100ms;
constexpr auto kUntilStoppedInKernel = 20ms;
constexpr auto kLongest = 400ms;

bool has_ended(const ThreadFacts& facts) { return facts.state == 'Z' || facts.state == 'X'; }

// Of all threads of a process.
struct Failures {
  std::vector<pid_t> in_kernel{};  // that are traced, and may stop when the kernel lets them
  int timeouts = 0;
  int refused = 0;
  int other_machine = 0;
  int too_late = 0;
};

// A thread that ends cannot be traced either.
bool ends(pid_t process, pid_t thread) {
  const std::optional<ThreadFacts> facts = facts_of_thread(process, thread);
  return !facts || has_ended(*facts);
}

void read_stack(pid_t process, ProcessSnapshot::Thread& thread, std::size_t most, Failures& failures,
                const std::function<void()>& at_stop) {
  const bool in_kernel = thread.facts.state == 'D';
  const StoppedThread stopped(thread.facts.id, in_kernel ? kUntilStoppedInKernel : kUntilStopped);
  switch (stopped.error()) {
    case 0: break;
    case ESRCH: return;
    case ETIMEDOUT:
      ++failures.timeouts;
      failures.in_kernel.push_back(thread.facts.id);
      return;
    case ENOTSUP: ++failures.other_machine; return;
    default: failures.refused += ends(process, thread.facts.id) ? 0 : 1; return;
  }
  if (thread.facts.id == process) at_stop();
  thread.registers = stopped.registers();
  thread.stack = stopped.stack(most);
  thread.is_read = true;
}

void read_stacks(ProcessSnapshot& snapshot, const std::function<void()>& at_stop) {
  Failures failures;
  const auto until = Clock::now() + kLongest;
  const std::size_t most =
      std::min(kMostStack, kMostOfProcess / std::max<std::size_t>(1, snapshot.threads.size()));
  for (ProcessSnapshot::Thread& thread : snapshot.threads) {
    if (has_ended(thread.facts)) continue;
    if (Clock::now() < until) {
      read_stack(snapshot.process, thread, most, failures, at_stop);
    } else {
      ++failures.too_late;
    }
    std::erase_if(failures.in_kernel, &StoppedThread::let_go);
    if (failures.refused > 0) break;  // the others, too
  }
  const auto note = [&](int count, const std::string& words) {
    if (count > 0) snapshot.notes.push_back(fmt::format("{} {}", count, words));
  };
  note(failures.timeouts, "threads wait in the kernel and cannot be stopped");
  note(failures.other_machine, "threads run a program of another processor type");
  note(failures.too_late, "threads were left out: the others took 0.4 s");
  if (failures.refused > 0) snapshot.notes.push_back("no native stacks: " + why_not_traced(snapshot.process));
}

}  // namespace

// The thread that traces ends here. So nothing stays traced, also what could not be stopped.
ProcessSnapshot snapshot_of(pid_t process, bool with_stacks, const std::function<void()>& at_stop) {
  ProcessSnapshot snapshot{
      .process = process, .mappings = text_of_file(fmt::format("/proc/{}/maps", process)), .threads = {}};
  const std::vector<pid_t> threads = threads_of(process);
  for (const pid_t thread : threads) {
    if (snapshot.threads.size() == kMostThreads) break;
    if (std::optional<ThreadFacts> facts = facts_of_thread(process, thread))
      snapshot.threads.push_back({.facts = std::move(*facts), .stack = {}});
  }
  if (threads.size() > kMostThreads)
    snapshot.notes.push_back(fmt::format("{} more threads are left out", threads.size() - kMostThreads));
  if (snapshot.threads.empty() ||
      std::ranges::all_of(snapshot.threads, [](const auto& thread) { return has_ended(thread.facts); })) {
    snapshot.notes.push_back(fmt::format("process {} has ended", process));
    return snapshot;
  }
  if (with_stacks) std::thread(read_stacks, std::ref(snapshot), std::cref(at_stop)).join();
  return snapshot;
}

}  // namespace rueda
