// SPDX-License-Identifier: Apache-2.0
#include "ops/mpi/communicator_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <string>

#include "core/base/error.h"
#include "ops/mpi/mpi_check.h"

namespace rueda {
namespace {

// In place of a rank.
constexpr int kNoPart = -1;
constexpr int kWrong = -2;

void check_running() {
  int initialized = 0, finalized = 0;
  check(MPI_Initialized(&initialized), "MPI_Initialized");
  check(MPI_Finalized(&finalized), "MPI_Finalized");
  if (initialized != 0 && finalized == 0) return;
  throw BackendError(Status::backend_error(fmt::format(
      "MPI {}: the ranks of a communicator can be asked for between MPI_Init and MPI_Finalize only.",
      finalized != 0 ? "has been finalised" : "has not begun")));
}

// Purpose: the group of a communicator, freed with this object.
class Group {
 public:
  explicit Group(MPI_Comm communicator) { check(MPI_Comm_group(communicator, &group_), "MPI_Comm_group"); }
  ~Group() { MPI_Group_free(&group_); }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  MPI_Group get() const { return group_; }

 private:
  MPI_Group group_ = MPI_GROUP_NULL;
};

// Those in `communicator`, by their ranks in MPI_COMM_WORLD, in its order.
std::vector<Rank> world_ranks(MPI_Comm communicator) {
  if (communicator == MPI_COMM_NULL) {
    throw InvalidArgument(Status::invalid_argument(
        "MPI_COMM_NULL has no ranks. MPI_Comm_split gives it to ranks whose color is MPI_UNDEFINED; "
        "ranks_of_split() takes it and leaves them out."));
  }
  int between_groups = 0;
  check(MPI_Comm_test_inter(communicator, &between_groups), "MPI_Comm_test_inter");
  if (between_groups != 0) {
    throw InvalidArgument(Status::invalid_argument(
        "An intercommunicator joins two groups and cannot be a process set. Merge them by "
        "MPI_Intercomm_merge, or give the ranks as a list."));
  }
  const Group part(communicator), world(MPI_COMM_WORLD);
  int size = 0;
  check(MPI_Group_size(part.get(), &size), "MPI_Group_size");
  std::vector<int> numbers(static_cast<std::size_t>(size)), ranks(numbers.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  check(MPI_Group_translate_ranks(part.get(), size, numbers.data(), world.get(), ranks.data()),
        "MPI_Group_translate_ranks");
  const auto outside = std::ranges::find(ranks, MPI_UNDEFINED);
  if (outside != ranks.end()) {
    throw InvalidArgument(Status::invalid_argument(fmt::format(
        "Rank {} of the communicator is not in MPI_COMM_WORLD, so it is no rank of this job. Give a "
        "communicator of ranks of the job.",
        outside - ranks.begin())));
  }
  return ranks;
}

// The lowest rank of this rank's part names it; kNoPart, or kWrong and why.
int name_of(MPI_Comm part, std::string& why) {
  if (part == MPI_COMM_NULL) return kNoPart;
  try {
    return std::ranges::min(world_ranks(part));
  } catch (const InvalidArgument& error) {
    why = error.what();
    return kWrong;
  }
}

// Throws the words of the lowest rank that gives its own number instead of `size`, on every rank.
void throw_alike(int wrong, int size, const std::string& why) {
  int rank = size;
  check(MPI_Allreduce(&wrong, &rank, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD), "MPI_Allreduce");
  if (rank == size) return;
  std::array<char, 512> words{};
  why.copy(words.data(), words.size() - 1);
  check(MPI_Bcast(words.data(), words.size(), MPI_CHAR, rank, MPI_COMM_WORLD), "MPI_Bcast");
  throw InvalidArgument(Status::invalid_argument(fmt::format(
      "The communicator of rank {} is no part of one split of MPI_COMM_WORLD: {} Give each rank its own "
      "part, as MPI_Comm_split made it.",
      rank, words.data())));
}

}  // namespace

RankSet ranks_in(MPI_Comm communicator) {
  check_running();
  RankSet set;
  for (const Rank rank : world_ranks(communicator)) set.add(RankSet::of(rank));
  return set;
}

std::vector<std::vector<Rank>> ranks_in_split(MPI_Comm part) {
  check_running();
  int rank = 0, size = 0;
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  check(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  std::string why;  // if `own` is kWrong
  int own = name_of(part, why);
  std::vector<int> names(static_cast<std::size_t>(size));
  check(MPI_Allgather(&own, 1, MPI_INT, names.data(), 1, MPI_INT, MPI_COMM_WORLD), "MPI_Allgather");
  std::map<int, std::vector<Rank>> parts;
  for (Rank each = 0; each < size; ++each) {
    if (names[each] >= 0) parts[names[each]].push_back(each);
  }
  // Of parts of one split, those who name a rank are those whom each of them has in its communicator.
  if (own >= 0) {
    std::vector<Rank> mine = world_ranks(part);
    std::ranges::sort(mine);
    if (mine != parts.at(own)) {
      why = "Its ranks are not those that gave a communicator with its lowest rank.";
      own = kWrong;
    }
  }
  throw_alike(own == kWrong ? rank : size, size, why);
  std::vector<std::vector<Rank>> lists;
  for (auto& [name, ranks] : parts) lists.push_back(std::move(ranks));
  return lists;
}

}  // namespace rueda
