// SPDX-License-Identifier: Apache-2.0
// How an allreduce of another library is measured: as rueda-bench measures ours. One program for each
// library, which alternate.py starts; it prints its numbers as JSON.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/rueda_bench/workload/start_line.h"

namespace rueda::bench {

// So many bytes, so often.
struct PeerWork {
  std::size_t bytes = 0;
  int steps = 0;
  int warmup = 0;
};

// From "BYTES:STEPS:WARMUP,..." Throws std::invalid_argument.
inline std::vector<PeerWork> peer_works(const std::string& text) {
  std::vector<PeerWork> works;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string one = text.substr(begin, end - begin);
    PeerWork work;
    char rest = 0;
    const int read = std::sscanf(one.c_str(), "%zu:%d:%d%c", &work.bytes, &work.steps, &work.warmup, &rest);
    if (read != 3 || work.bytes < sizeof(float) || work.steps < 1 || work.warmup < 0)
      throw std::invalid_argument("'" + one + "' is not BYTES:STEPS:WARMUP");
    works.push_back(work);
    begin = end + 1;
  }
  if (works.empty()) throw std::invalid_argument("what is to be measured? BYTES:STEPS:WARMUP,...");
  return works;
}

// Small whole numbers: sums are exact.
inline float peer_value(std::size_t element, int rank) {
  return static_cast<float>((element + static_cast<std::size_t>(rank)) % 3);
}

// Microseconds of each step on the slowest rank. The buffer is written anew by its owner before each step,
// then all begin at one instant. `wrong` gets how many elements were.
template <class Library>
std::vector<double> peer_series(Library& library, const PeerWork& work, double& wrong) {
  using Clock = std::chrono::steady_clock;
  std::vector<float> values(work.bytes / sizeof(float)), wanted(values.size());
  for (std::size_t i = 0; i < wanted.size(); ++i)
    for (int rank = 0; rank < library.size(); ++rank) wanted[i] += peer_value(i, rank);
  const StartLine start(true, library.size());
  std::vector<double> series, sum{0}, instant;
  for (int step = -work.warmup; step < work.steps; ++step) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = peer_value(i, library.rank());
    instant = {static_cast<double>(start.proposal())};  // exact: 2^53 ns are 104 days
    library.take_largest(instant);
    StartLine::await(static_cast<std::int64_t>(instant[0]));
    const Clock::time_point begin = Clock::now();
    library.allreduce(values.data(), values.size());
    const std::chrono::duration<double, std::micro> time = Clock::now() - begin;
    library.barrier();  // who is through leaves the core to who is to find out
    if (step >= 0) series.push_back(time.count());
    if (std::memcmp(values.data(), wanted.data(), work.bytes) != 0)
      for (std::size_t i = 0; i < values.size(); ++i) sum[0] += values[i] != wanted[i];
  }
  library.take_largest(series);
  library.take_largest(sum);
  wrong = sum[0];
  std::sort(series.begin(), series.end());
  return series;
}

// Prints a list of {bytes, count, median_us, min_us, p99_us, wrong} on rank 0.
template <class Library>
void measure_peer(Library& library, const std::string& works) {
  const char* separator = "[";
  for (const PeerWork& work : peer_works(works)) {
    double wrong = 0;
    const std::vector<double> sorted = peer_series(library, work, wrong);
    if (library.rank() != 0) continue;
    auto at = [&sorted](double share) {
      return sorted[static_cast<std::size_t>(share * (sorted.size() - 1))];
    };
    std::printf(
        "%s{\"bytes\": %zu, \"count\": %zu, \"median_us\": %.4f, \"min_us\": %.4f, \"p99_us\": %.4f, "
        "\"wrong\": %.0f}",
        separator, work.bytes, sorted.size(), at(0.5), at(0), at(0.99), wrong);
    separator = ",\n ";
  }
  if (library.rank() == 0) std::printf("]\n");
}

// The main() of such a program: its one argument says what is measured.
template <class Library>
int run_peer(int argc, char** argv) {
  try {
    if (argc != 2) throw std::invalid_argument("one argument: BYTES:STEPS:WARMUP,...");
    peer_works(argv[1]);
    Library library;
    measure_peer(library, argv[1]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}

}  // namespace rueda::bench
