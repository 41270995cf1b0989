// SPDX-License-Identifier: Apache-2.0
// A program with an MPI of its own that makes process sets of its communicators:
//   communicators split    of the parts of a split, at init and at run time, in two jobs one after the other
//   communicators differ   each rank gives its own part alone, is refused, and then gives the same as all
//   communicators wrong    communicators that are no process sets
//   communicators abort    ends itself by MPI_Abort
#include <mpi.h>
#include <rueda/mpi.h>
#include <rueda/rueda.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/process_watchdog.h"

namespace {

std::string program;
int rank = 0, size = 1;

MPI_Comm split(int color) {
  MPI_Comm part = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, color, -rank, &part);  // in descending order
  return part;
}

// Adds up the ranks of each set that this one is in.
void add_up(const std::vector<rueda::ProcessSet>& sets) {
  for (const rueda::ProcessSet& set : sets) {
    if (!set.included()) continue;
    std::vector<int> values{rank};
    allreduce_async("ranks", rueda::view(values), rueda::view(values), {rueda::ReduceOp::sum}, set).wait();
    std::printf("rank %d: set %u of %s has sum %d\n", rank, set.id(), to_string(set.ranks()).c_str(),
                values[0]);
  }
}

template <class Attempt>
void refused(Attempt attempt) {
  try {
    attempt();
  } catch (const rueda::Error& error) {
    std::printf("refused: %s\n", error.what());
    return;
  }
  throw std::logic_error("was not refused");
}

void use_split() {
  const MPI_Comm parity = split(rank % 2);
  rueda::init(rueda::ranks_of_split(parity));
  add_up(rueda::process_sets());
  const rueda::RankSet first = rueda::ranks_of(parity);  // of this rank's part only: agree on rank 0's
  std::vector<rueda::Rank> odd{rank % 2};
  broadcast_async("whose", rueda::view(odd), rueda::view(odd), 0).wait();
  const rueda::RankSet others = rueda::RankSet(0, size) - first;
  rueda::remove_process_set(rueda::process_sets().front());
  add_up({rueda::add_process_set(rank % 2 == odd[0] ? first : others)});
  rueda::shutdown();
  rueda::init(rueda::ranks_of_split(split(rank == 1 ? MPI_UNDEFINED : 0)));
  add_up(rueda::process_sets());
  refused([] { rueda::init({{0, 2}, {1}}); });  // it runs with other sets
}

void give_own_part() {
  const MPI_Comm parity = split(rank % 2);
  const rueda::RankSet own = rueda::ranks_of(parity);
  std::vector<rueda::Rank> list;
  for (rueda::Rank i = 0; i < own.count(); ++i) list.push_back(own.at(i));
  refused([&] { rueda::init({list}); });
  refused([&] { rueda::init({{0, 1}, {size}}); });
  rueda::init(rueda::ranks_of_split(parity));
  add_up(rueda::process_sets());
}

void give_wrong_ones() {
  refused([] { rueda::ranks_of(MPI_COMM_NULL); });
  const MPI_Comm parity = split(rank % 2);
  MPI_Comm between = MPI_COMM_NULL;
  MPI_Intercomm_create(parity, 0, MPI_COMM_WORLD, rank % 2 == 0 ? size - 1 - size % 2 : size - 2 + size % 2,
                       0, &between);
  refused([&] { rueda::ranks_of(between); });
  refused([&] { rueda::ranks_of_split(rank == 1 ? between : parity); });
  refused([&] { rueda::ranks_of_split(rank == 0 ? MPI_COMM_WORLD : MPI_COMM_SELF); });

  // A process that is not of this job's world.
  std::string child = "child";
  std::array<char*, 2> arguments{child.data(), nullptr};
  MPI_Comm spawned = MPI_COMM_NULL, all = MPI_COMM_NULL;
  MPI_Comm_spawn(program.c_str(), arguments.data(), 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &spawned,
                 MPI_ERRCODES_IGNORE);
  MPI_Intercomm_merge(spawned, 0, &all);
  refused([&] { rueda::ranks_of(all); });
}

// The process that give_wrong_ones() spawns.
void be_the_child() {
  MPI_Comm parent = MPI_COMM_NULL, all = MPI_COMM_NULL;
  MPI_Comm_get_parent(&parent);
  MPI_Intercomm_merge(parent, 1, &all);
}

}  // namespace

int main(int argc, char** argv) {
  program = argv[0];
  const std::string mode = argc > 1 ? argv[1] : "";
  const std::map<std::string, std::function<void()>> modes{{"split", use_split},
                                                           {"differ", give_own_part},
                                                           {"wrong", give_wrong_ones},
                                                           {"child", be_the_child},
                                                           {"abort", [] { MPI_Abort(MPI_COMM_WORLD, 7); }}};
  const auto found = modes.find(mode);
  if (found == modes.end()) {
    std::fprintf(stderr, "usage: communicators split|differ|wrong|abort\n");
    return 2;
  }
  const rueda::ProcessWatchdog watchdog(std::chrono::seconds(60));
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int status = 0;
  try {
    found->second();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    status = 1;
  }
  rueda::shutdown();
  MPI_Finalize();
  return status;
}
