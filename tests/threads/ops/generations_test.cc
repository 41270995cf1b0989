// SPDX-License-Identifier: Apache-2.0
// One elastic job of many generations in one process: workers die inside operations and inside starts, others
// take their places, and nothing is left of a generation in the next one.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>

#include "core/base/log.h"
#include "core/engine/runtime.h"
#include "rueda/rueda.h"
#include "tests/support/sanitized.h"
#include "tests/support/worlds/elastic_world.h"

namespace rueda {
namespace {

using namespace std::chrono_literals;

constexpr Rank kMost = 4;
constexpr int kLastRounds = 3;
constexpr auto kTimeoutWithJob = sanitized(500s, 200s);

// RUEDA_GENERATIONS says it otherwise.
std::uint64_t generations_to_form() {
  const char* text = std::getenv("RUEDA_GENERATIONS");
  if (text != nullptr) return std::strtoull(text, nullptr, 10);
  return in_full("core") ? sanitized(100, 1000) : 100;
}

// Purpose: how a generation is to end. The same on all its ranks.
struct Fate {
  enum class Moment { start, operation, pause };
  RankSet victims;  // none: others take part once they have come
  Moment moment = Moment::operation;
  int delay = 0;  // rounds before that, or microseconds of the start
  bool seen_at_once = false;
};

Fate fate_of(const Generation& generation) {
  std::mt19937 random(static_cast<std::uint32_t>(generation.number));
  const auto pick = [&](int count) { return static_cast<int>(random() % static_cast<unsigned>(count)); };
  const Rank count = generation.workers.count();
  Fate fate;
  fate.moment = static_cast<Fate::Moment>(pick(3));
  fate.delay = fate.moment == Fate::Moment::start ? pick(4000) : pick(4);
  fate.seen_at_once = pick(2) == 0;
  const bool loses_some = count == kMost || (count > 1 && pick(3) == 0);
  const int victims = !loses_some ? 0 : count > 2 && pick(4) == 0 ? 2 : 1;
  while (fate.victims.count() < victims) fate.victims.add(RankSet::of(generation.workers.at(pick(count))));
  return fate;
}

// Purpose: the tensors of one worker. Those of the generation before hold a pattern, which nobody may change:
// once a generation has formed, no rank of an earlier one writes any more.
class Tensors {
 public:
  // A generation has formed. Its tensors lie in memory of this Runtime, which lives on with them.
  void renew(Runtime& runtime) {
    expect_unchanged();
    former_ = std::exchange(present_, Memory(runtime));
    for (const std::span<float> each : former_.all()) std::ranges::fill(each, kKept);
  }
  void expect_unchanged() {
    for (const std::span<float> each : former_.all())
      EXPECT_EQ(std::ranges::count(each, kKept), std::ssize(each)) << "an earlier generation has written";
  }
  // One allreduce of each; whether all have succeeded. `between` comes while they are on their way.
  template <class Between>
  bool reduce(Runtime& runtime, float value, float sum, Between between) {
    std::vector<Handle> handles;
    for (const std::span<float> each : present_.all()) {
      std::ranges::fill(each, value);
      handles.push_back(allreduce_async(fmt::format("tensor{}", handles.size()), view(each), view(each),
                                        {ReduceOp::sum}, runtime));
    }
    between();
    bool good = true;
    for (const Handle& handle : handles) good &= handle.wait_status().ok();
    for (const std::span<float> each : present_.all())
      EXPECT_TRUE(!good || std::ranges::count(each, sum) == std::ssize(each)) << "a sum is wrong";
    return good;
  }

 private:
  static constexpr float kKept = -5;
  static constexpr std::size_t kLarge = sanitized(40'000, 150'000);

  struct Memory {
    Memory() = default;
    explicit Memory(Runtime& runtime)
        : small(6), large(kLarge), shared(runtime.allocate(kLarge * sizeof(float))) {}
    std::vector<std::span<float>> all() {
      return {small, large, {reinterpret_cast<float*>(shared.get()), shared ? kLarge : 0}};
    }

    std::vector<float> small;
    std::vector<float> large;
    std::shared_ptr<std::byte> shared;
  };

  Memory present_;
  Memory former_;
};

// Purpose: one job of threads, from generation 0 to the end of all workers in the last one.
class GenerationsJob {
 public:
  explicit GenerationsJob(std::uint64_t last) : last_(last), world_(kMost, kMost) {}

  void run() {
    for (Worker worker = 0; worker < kMost; ++worker) start(worker);
    const auto until = std::chrono::steady_clock::now() + kTimeoutWithJob;
    std::unique_lock lock(mutex_);
    while (!threads_.empty()) {
      if (!changed_.wait_until(lock, until, [&] { return !ended_.empty() || wanted_; })) give_up();
      for (const Worker worker : std::exchange(ended_, {})) {
        threads_.at(worker).join();
        threads_.erase(worker);
      }
      wanted_ = false;
      for (const Worker worker : world_.take_wanted()) start(worker);
    }
    EXPECT_EQ(world_.failure(), "");
  }
  int rounds() const { return rounds_; }      // that have succeeded on some rank
  int failures() const { return failures_; }  // starts and rounds that have not
  // From one generation that has formed on some rank to the next one.
  std::chrono::milliseconds longest() const {
    return std::chrono::floor<std::chrono::milliseconds>(longest_);
  }

 private:
  void start(Worker worker) {
    threads_[worker] = std::thread([this, worker] {
      live(worker);
      const std::lock_guard lock(mutex_);
      ended_.push_back(worker);
      changed_.notify_all();
    });
  }
  [[noreturn]] void give_up() {
    write_to_stderr(fmt::format("tests: the generations did not end in time; {} threads live, {} rounds\n",
                                threads_.size(), rounds_.load()));
    flush_stderr(kLastWordsTime);
    std::_Exit(99);
  }

  void live(Worker worker);
  void note_formed(const Generation& generation);
  bool take_part(Worker worker, const Generation& generation, Tensors& tensors);
  bool work(Runtime& runtime, Worker worker, const Generation& generation, Tensors& tensors);

  const std::uint64_t last_;
  ElasticWorld world_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Worker, std::thread> threads_;  // of the thread that runs the job
  std::vector<Worker> ended_;              // guarded by the mutex
  bool wanted_ = false;                    // more workers, perhaps; guarded by the mutex
  std::atomic<int> rounds_{0};
  std::atomic<int> failures_{0};
  std::uint64_t formed_ = 0;  // the newest generation that has formed; guarded by the mutex
  Time formed_at_{};          // the same
  Duration longest_{};        // the same
};

void GenerationsJob::live(Worker worker) {
  Tensors tensors;
  std::optional<std::uint64_t> tried;
  while (const std::optional<Generation> generation = world_.next_generation(worker, tried)) {
    tried = generation->number;
    bool over = false;
    try {
      over = take_part(worker, *generation, tensors);
    } catch (const Error& error) {
      ++failures_;
      EXPECT_TRUE(world_.is_broken(*tried)) << "generation " << *tried << ": " << error.what();
    }
    if (world_.is_dead(worker)) return world_.tell_lost(worker);  // others may still write into its tensors
    if (!over) continue;
    tensors.expect_unchanged();
    return world_.tell_finished(worker);
  }
}

// Others may be wanted from now on.
void GenerationsJob::note_formed(const Generation& generation) {
  const std::lock_guard lock(mutex_);
  wanted_ = true;
  changed_.notify_all();
  if (generation.number <= formed_) return;
  const Time now = clock_now();
  if (formed_ > 0) longest_ = std::max(longest_, now - formed_at_);
  formed_ = generation.number;
  formed_at_ = now;
}

// True when this worker has done its work. Throws where the start fails.
bool GenerationsJob::take_part(Worker worker, const Generation& generation, Tensors& tensors) {
  const Fate fate = fate_of(generation);
  const bool dies_in_start =
      fate.moment == Fate::Moment::start && fate.victims.contains(worker) && generation.number < last_;
  RuntimeComponents components = world_.components(worker, generation, worker % 2 == 0 ? "even" : "odd");
  std::jthread death;
  if (dies_in_start) {
    death = std::jthread([this, worker, fate] {
      std::this_thread::sleep_for(std::chrono::microseconds(fate.delay));
      world_.die(worker, fate.seen_at_once);
    });
  }
  Runtime runtime(std::move(components));
  EXPECT_EQ(runtime.topology().rank, generation.workers.index_of(worker));
  EXPECT_EQ(runtime.topology().size, generation.workers.count());
  world_.tell_formed(worker, generation.number);
  note_formed(generation);
  tensors.renew(runtime);
  if (dies_in_start) death.join();
  const bool over = !world_.is_dead(worker) && work(runtime, worker, generation, tensors);
  if (!world_.is_dead(worker)) runtime.shutdown();
  return over;
}

bool GenerationsJob::work(Runtime& runtime, Worker worker, const Generation& generation, Tensors& tensors) {
  const Fate fate = fate_of(generation);
  const bool last = generation.number >= last_;
  const bool dies = fate.victims.contains(worker) && !last;
  const auto values = generation.by_rank();
  for (int round = 0; !last || round < kLastRounds; ++round) {
    if (!last && world_.joiners_wait()) {
      world_.leave(generation.number);
      return false;
    }
    const bool now = dies && round == fate.delay;
    const auto die = [&] {
      if (now) world_.die(worker, fate.seen_at_once);
    };
    if (fate.moment == Fate::Moment::pause) die();
    if (world_.is_dead(worker)) return false;
    float sum = 0;
    for (const Worker each : values) sum += static_cast<float>(each % 100 + round);
    if (!tensors.reduce(runtime, static_cast<float>(worker % 100 + round), sum, die)) {
      ++failures_;
      EXPECT_TRUE(world_.is_broken(generation.number)) << "generation " << generation.number;
      return false;
    }
    if (world_.is_dead(worker)) return false;
    ++rounds_;
  }
  return true;
}

// Purpose: what the process holds while no job runs. A plain value.
struct Held {
  std::ptrdiff_t descriptors = 0;
  std::ptrdiff_t threads = 0;
  std::ptrdiff_t shared = 0;    // mappings of memory that ranks share
  std::ptrdiff_t mappings = 0;  // all of them
  std::size_t heap = 0;         // bytes in use
};

std::ptrdiff_t entries_in(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder), {});
}

Held held() {
  Held held{.descriptors = entries_in("/proc/self/fd"), .threads = entries_in("/proc/self/task")};
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line); ++held.mappings)
    held.shared += line.find("memfd:") != std::string::npos ? 1 : 0;
  held.heap = ::mallinfo2().uordblks;
  return held;
}

// A thread that has looked for rank 0 may end a moment later.
Held held_at_rest(std::ptrdiff_t threads) {
  const auto until = std::chrono::steady_clock::now() + 10s;
  while (entries_in("/proc/self/task") > threads && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(10ms);
  return held();
}

void run_job(std::uint64_t generations) {
  GenerationsJob job(generations);
  job.run();
  EXPECT_GT(job.rounds(), static_cast<int>(generations) / 2);
  EXPECT_GT(job.failures(), static_cast<int>(generations) / 2);
  fmt::print("{} generations: {} rounds of operations, {} failures; the longest way to the next took {} ms\n",
             generations, job.rounds(), job.failures(), job.longest().count());
}

TEST(Generations, FollowOneAnotherAndLeaveNothingBehind) {
  configure_log(LogLevel::fatal, false, 0);
  const std::uint64_t all = generations_to_form();
  const std::ptrdiff_t threads = held().threads;
  run_job(all / 10);
  const Held before = held_at_rest(threads);
  run_job(all - all / 10);
  const Held after = held_at_rest(threads);
  configure_log(LogLevel::warning, false, 0);
  fmt::print("held: {} and {} descriptors, {} and {} threads, {} and {} mappings, {} and {} bytes\n",
             before.descriptors, after.descriptors, before.threads, after.threads, before.mappings,
             after.mappings, before.heap, after.heap);
  EXPECT_EQ(after.descriptors, before.descriptors);
  EXPECT_EQ(after.threads, before.threads);
  EXPECT_EQ(after.shared, before.shared);
  if (kSanitized) return;  // which has its own memory
  constexpr std::size_t kOfGeneration = 16, kRest = 16 << 10;
  EXPECT_LT(after.mappings, before.mappings + 50);
  EXPECT_LT(after.heap, before.heap + kOfGeneration * all + kRest);
}

}  // namespace
}  // namespace rueda
