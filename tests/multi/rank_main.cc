// SPDX-License-Identifier: Apache-2.0
// One rank of a job that something happens to; tests/python/test_processes.py starts it: rank MODE [SECONDS]
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/base/host_buffer.h"
#include "core/engine/runtime.h"
#include "rueda/rueda.h"
#include "tests/support/process_watchdog.h"

namespace {

using rueda::allreduce_async;
using rueda::view;

void sleep_for(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Prints what part of a core this process uses while `activity` lasts.
void measure(const char* what, const std::function<void()>& activity) {
  const double processor = processor_seconds();
  const auto begin = std::chrono::steady_clock::now();
  activity();
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  std::printf("%s: rank %d used %.3f %% of a core over %.1f s\n", what, rueda::rank(),
              100 * (processor_seconds() - processor) / wall.count(), wall.count());
}

// Allreduces until something happens.
void reduce_for_ever(const std::function<void(int)>& before_each, std::size_t elements = 4 << 20) {
  std::vector<float> values(elements, 1.0f);
  for (int i = 0;; ++i) {
    before_each(i);
    allreduce_async("gradient", view(values), view(values)).wait();
  }
}

// Allreduces for so long by rank 0's clock.
void reduces(double seconds) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<float> values(1000);
  do {
    const std::chrono::duration<double> past = std::chrono::steady_clock::now() - begin;
    values.assign(values.size(), rueda::rank() == 0 && past.count() >= seconds ? 0.0f : 1.0f);
    allreduce_async("go on", view(values), view(values), {rueda::ReduceOp::min}).wait();
  } while (values.front() != 0);
}

// Allreduces of several tensors at a time until the process is killed, all by one way through shared memory.
void reduce_many(std::size_t count, std::size_t elements, bool in_window, bool strided) {
  std::vector<std::shared_ptr<std::byte>> memory;
  std::vector<rueda::TensorView> tensors;
  const auto side = static_cast<std::int64_t>(elements);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t bytes = elements * elements * sizeof(float);
    const auto ordinary = std::make_shared<rueda::HostBuffer>(in_window ? 0 : bytes);
    memory.push_back(in_window ? rueda::allocate(bytes)
                               : std::shared_ptr<std::byte>(ordinary, ordinary->data()));
    std::memset(memory.back().get(), 0, bytes);
    tensors.push_back({memory.back().get(), rueda::DataType::float32, {side, side}, {}});
    if (strided) tensors.back().strides = {1, side};
  }
  for (;;) {
    std::vector<rueda::Handle> handles;
    for (std::size_t i = 0; i < count; ++i)
      handles.push_back(allreduce_async("tensor" + std::to_string(i), tensors[i], tensors[i]));
    for (const rueda::Handle& handle : handles) handle.wait();
  }
}

void idle(double seconds) {
  rueda::barrier_async().wait();
  sleep_for(0.2);
  measure("idle", [&] { sleep_for(seconds); });
}

void late(double seconds) {
  std::vector<float> values(1000, 1.0f);
  rueda::barrier_async().wait();
  if (rueda::rank() == rueda::size() - 1) {
    sleep_for(seconds);
    allreduce_async("late", view(values), view(values)).wait();
  } else {
    measure("waiting", [&] { allreduce_async("late", view(values), view(values)).wait(); });
  }
}

// For those who measure how long the other ranks take to end.
void say_that_it_ends() {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  std::printf("ends at %.3f\n", now.count());
  std::fflush(stdout);
}

void killed(double) {
  reduce_for_ever([](int i) {
    if (i != 5 || rueda::rank() != 1) return;
    say_that_it_ends();
    std::thread([] { kill(getpid(), SIGKILL); }).detach();
  });
}

void killed_small(double) {
  reduce_for_ever(
      [](int i) {
        if (i != 5000 || rueda::rank() != 1) return;
        say_that_it_ends();
        kill(getpid(), SIGKILL);
      },
      1);
}

// The other ranks end sooner.
void leave(double seconds, int status) {
  reduce_for_ever([&](int i) {
    if (i != 5 || rueda::rank() != 1) return;
    rueda::shutdown();
    sleep_for(seconds);
    std::exit(status);
  });
}

void exits(double) {
  reduce_for_ever([](int i) {
    if (i != 5 || rueda::rank() != 1) return;
    say_that_it_ends();
    std::exit(3);
  });
}

// Leaves without any exit handler.
void vanishes(double) {
  reduce_for_ever([](int i) {
    if (i != 5 || rueda::rank() != 1) return;
    say_that_it_ends();
    _exit(0);
  });
}

void returns(double) {
  if (rueda::rank() == 1) return;
  std::vector<float> values(10);
  allreduce_async("needed", view(values), view(values)).wait();
}

// The background thread of rank 1 never comes back from an allocation.
void stuck(double) {
  std::vector<float> values(10, 1.0f);
  rueda::Submission submission;
  submission.request = {"rows", rueda::Operation::allgather, rueda::DataType::float32, {10}};
  submission.input = view(values);
  if (rueda::rank() == 1) {
    submission.allocate = [](rueda::DataType, const rueda::Shape&) -> rueda::TensorView {
      sleep_for(30);
      return {};
    };
  }
  rueda::default_runtime().submit(std::move(submission)).wait();
}

// The allocator of one rank after the other fails; then all operations work. Small messages and large ones.
void fails_to_allocate(double) {
  const int rank = rueda::rank(), size = rueda::size();
  for (int round = 0; round < 40; ++round) {
    const int bad = round % size;
    const std::int64_t rows = round % 2 == 0 ? 100 : 300'000;
    std::vector<float> values(static_cast<std::size_t>(rows * size), static_cast<float>(rank));
    rueda::Submission submission;
    submission.input = view(values);
    submission.request = {"rows" + std::to_string(round),
                          round % 4 < 2 ? rueda::Operation::allgather : rueda::Operation::alltoall,
                          rueda::DataType::float32,
                          {rows * size}};
    if (rank == bad) {
      submission.allocate = [](rueda::DataType, const rueda::Shape&) -> rueda::TensorView {
        throw std::runtime_error("no memory today");
      };
    }
    std::vector<float> sums(static_cast<std::size_t>(rows), 1.0f);
    const rueda::Handle failing = rueda::default_runtime().submit(std::move(submission));
    const rueda::Handle sum = allreduce_async("sum", view(sums), view(sums), {rueda::ReduceOp::sum});
    const rueda::Status status = failing.wait_status();
    std::printf("round %d: %s\n", round, status.message.c_str());
    sum.wait();
    if (status.ok() || sums != std::vector<float>(sums.size(), static_cast<float>(size)))
      throw std::runtime_error("wrong in round " + std::to_string(round));
    for (int i = 0; i < 5; ++i) {
      const rueda::Handle rows_of_all = rueda::allgather_async("after" + std::to_string(i), view(sums));
      rows_of_all.wait();
      const auto* data = static_cast<const float*>(rows_of_all.output().data);
      const std::int64_t count = rows_of_all.output().elements();
      if (count != rows * size ||
          std::count(data, data + count, static_cast<float>(size)) != static_cast<std::ptrdiff_t>(count))
        throw std::runtime_error("wrong after round " + std::to_string(round));
    }
  }
  std::printf("all well\n");
}

// Rank 1 is stopped for some seconds, with its background thread.
void stopped(double seconds) {
  rueda::barrier_async().wait();
  if (rueda::rank() == 1) {
    const pid_t self = getpid();
    if (fork() == 0) {  // wakes it up again
      sleep_for(seconds);
      kill(self, SIGCONT);
      _exit(0);
    }
    kill(self, SIGSTOP);
  }
  std::vector<float> values(10, 1.0f);
  allreduce_async("after", view(values), view(values)).wait();
}

// exit() on the background thread.
void exits_inside(double) {
  std::vector<float> values(10, 1.0f);
  rueda::Submission submission;
  submission.request = {"rows", rueda::Operation::allgather, rueda::DataType::float32, {10}};
  submission.input = view(values);
  if (rueda::rank() == 1) {
    submission.allocate = [](rueda::DataType, const rueda::Shape&) -> rueda::TensorView {
      say_that_it_ends();
      std::exit(3);
    };
  }
  rueda::default_runtime().submit(std::move(submission)).wait();
}

// Job after job in one process; ranks leave and come back at different times.
void restarts(double) {
  for (int round = 0; round < 30; ++round) {
    std::vector<std::vector<float>> tensors(10, std::vector<float>(5000, static_cast<float>(rueda::rank())));
    std::vector<rueda::Handle> handles;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      handles.push_back(allreduce_async("tensor" + std::to_string(i), view(tensors[i]), view(tensors[i]),
                                        {rueda::ReduceOp::sum}));
    }
    for (const rueda::Handle& handle : handles) handle.wait();
    const float expected = static_cast<float>(rueda::size() * (rueda::size() - 1) / 2);
    for (const auto& tensor : tensors) {
      if (tensor.back() != expected) throw std::runtime_error("wrong sum in round " + std::to_string(round));
    }
    if (rueda::rank() == round % rueda::size()) sleep_for(0.01);
    rueda::shutdown();
    rueda::init();
  }
}

void shapes(double) {
  std::vector<float> values(10 + rueda::rank());
  allreduce_async("layer.weight", view(values), view(values)).wait();
}

void forks(double) {
  std::vector<float> values(10, 1.0f);
  std::vector<std::vector<float>> sums(static_cast<std::size_t>(rueda::size()), values);
  const auto submit_of = [&](rueda::Rank rank) {
    return allreduce_async("parent of " + std::to_string(rank), view(values), view(sums.at(rank)));
  };
  const rueda::Handle pending = submit_of(rueda::rank());  // until the others submit it
  const rueda::Rank rank = rueda::rank();
  const pid_t child = fork();
  if (child == 0) {
    if (rueda::rank() == rank) std::printf("child of rank %d of %d\n", rank, rueda::size());
    try {
      pending.wait();
    } catch (const rueda::NotInitialized& error) {
      std::printf("child waits: %s\n", error.what());
    }
    try {
      rueda::init();
    } catch (const rueda::NotInitialized& error) {
      std::printf("child's init: %s\n", error.what());
    }
    try {
      allreduce_async("child", view(values), view(values));
    } catch (const rueda::NotInitialized& error) {
      std::printf("child: %s\n", error.what());
      std::exit(0);  // with exit handlers, which must leave the parent's job alone
    }
    std::exit(1);
  }
  for (rueda::Rank other = 0; other < rueda::size(); ++other) {
    if (other != rank) submit_of(other).wait();
  }
  pending.wait();
}

// Rank 1 comes late; the others, who allow little time, are told and try again.
void absent(double seconds) {
  const char* rank = std::getenv("PMI_RANK");
  if (rank != nullptr && std::string(rank) == "1") sleep_for(seconds);
  try {
    rueda::init();
  } catch (const rueda::PeerLost& error) {
    std::printf("first: %s\n", error.what());
    std::fflush(stdout);
    rueda::init();
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, std::function<void(double)>> modes{
      {"idle", idle},
      {"late", late},
      {"killed", killed},
      {"killed_small", killed_small},
      {"exits", exits},
      {"leaves0", [](double seconds) { leave(seconds, 0); }},
      {"leaves3", [](double seconds) { leave(seconds, 3); }},
      {"vanishes", vanishes},
      {"returns", returns},
      {"shapes", shapes},
      {"stuck", stuck},
      {"restarts", restarts},
      {"forks", forks},
      {"absent", absent},
      {"exits_inside", exits_inside},
      {"stopped", stopped},
      {"fails_to_allocate", fails_to_allocate},
      {"reduces", reduces},
      {"one_shots", [](double) { reduce_many(64, 30, false, false); }},
      {"staged", [](double) { reduce_many(16, 250, false, true); }},
      {"in_place", [](double) { reduce_many(4, 2000, true, false); }}};
  const auto mode = modes.find(argc > 1 ? argv[1] : "");
  if (mode == modes.end()) {
    std::fprintf(stderr, "usage: rank MODE [SECONDS]\n");
    return 2;
  }
  const rueda::ProcessWatchdog watchdog(std::chrono::seconds(60));
  try {
    const double seconds = argc > 2 ? std::atof(argv[2]) : 0;
    if (mode->first == "absent") mode->second(seconds);
    rueda::init();
    std::printf("rank %d is process %d\n", rueda::rank(), getpid());
    std::fflush(stdout);
    if (mode->first != "absent") mode->second(seconds);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  return 0;
}
