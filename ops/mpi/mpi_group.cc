// SPDX-License-Identifier: Apache-2.0
#include "ops/mpi/mpi_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/base/wait_check.h"
#include "core/control/bootstrap/ranks_of_job.h"
#include "ops/mpi/mpi_check.h"
#include "ops/mpi/mpi_runtime.h"

namespace rueda {
namespace {

Rank own_world_rank() {
  Rank rank = 0;
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  return rank;
}

std::vector<Rank> checked(std::vector<Rank> ranks) {
  if (ranks.empty()) return ranks;
  Rank started = 0;
  check(MPI_Comm_size(MPI_COMM_WORLD, &started), "MPI_Comm_size");
  check_ranks_of_job(ranks, started, own_world_rank());
  return ranks;
}

// So that lists that differ do not meet: MPI wants equal ones for a tag.
int tag_of(const std::vector<Rank>& world_ranks) {
  std::uint32_t hash = 2166136261U;
  for (const Rank rank : world_ranks) hash = (hash ^ static_cast<std::uint32_t>(rank)) * 16777619U;
  return static_cast<int>((hash ^ (hash >> 15U)) & 0x7FFFU);  // every MPI has so many
}

// Returns when all of them have called it.
MPI_Comm communicator_of(const std::vector<Rank>& world_ranks) {
  MPI_Group world = MPI_GROUP_NULL, part = MPI_GROUP_NULL;
  MPI_Comm communicator = MPI_COMM_NULL;
  check(MPI_Comm_group(MPI_COMM_WORLD, &world), "MPI_Comm_group");
  check(MPI_Group_incl(world, static_cast<int>(world_ranks.size()), world_ranks.data(), &part),
        "MPI_Group_incl");
  check(MPI_Comm_create_group(MPI_COMM_WORLD, part, tag_of(world_ranks), &communicator),
        "MPI_Comm_create_group");
  check(MPI_Group_free(&part), "MPI_Group_free");
  check(MPI_Group_free(&world), "MPI_Group_free");
  return communicator;
}

}  // namespace

MpiGroup::MpiGroup(std::vector<Rank> world_ranks) : world_ranks_(checked(std::move(world_ranks))) {}

bool MpiGroup::start(Time deadline) {
  if (stage_ == Stage::untouched) begin();
  if (stage_ == Stage::grouping) {
    if (!wait_for_future(grouped_, deadline)) return false;
    duplicate(grouped_.get());
  }
  RegularLooks looks;
  while (stage_ == Stage::duplicating) {
    int done = 0;
    check(MPI_Testall(2, duplications_.data(), &done, MPI_STATUSES_IGNORE), "MPI_Testall");
    if (done != 0) {
      finish();
      break;
    }
    if (clock_now() > deadline) return false;
    looks.look_if_due();
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

void MpiGroup::begin() {
  MpiRuntime::hold_back_finalize(+1);  // it would wait for a rank that does not come
  if (world_ranks_.empty()) return duplicate(MPI_COMM_WORLD);
  std::packaged_task<MPI_Comm()> task([ranks = world_ranks_] { return communicator_of(ranks); });
  grouped_ = task.get_future().share();
  std::thread(std::move(task)).detach();  // it may be in there for as long as a rank is missing
  stage_ = Stage::grouping;
}

void MpiGroup::duplicate(MPI_Comm base) {
  check(MPI_Comm_idup(base, &control_, &duplications_[0]), "MPI_Comm_idup");
  check(MPI_Comm_idup(base, &data_, &duplications_[1]), "MPI_Comm_idup");
  stage_ = Stage::duplicating;
}

void MpiGroup::finish() {
  MpiRuntime::hold_back_finalize(-1);
  for (MPI_Comm communicator : {control_, data_})
    check(MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check(MPI_Comm_rank(control_, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(control_, &size_), "MPI_Comm_size");
  stage_ = Stage::ready;
}

std::optional<Rank> MpiGroup::of_world(Rank world_rank) const {
  if (world_ranks_.empty()) return world_rank < size_ ? std::optional(world_rank) : std::nullopt;
  const auto found = std::ranges::find(world_ranks_, world_rank);
  if (found == world_ranks_.end()) return std::nullopt;
  return static_cast<Rank>(found - world_ranks_.begin());
}

}  // namespace rueda
