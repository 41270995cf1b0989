// SPDX-License-Identifier: Apache-2.0
#include "ops/mpi/mpi_runtime.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <future>
#include <thread>

#include "core/base/wait_check.h"
#include "core/control/bootstrap/ranks_of_job.h"
#include "core/default_runtime.h"
#include "ops/link/launcher_environment.h"
#include "ops/mpi/mpi_check.h"
#include "rueda/rueda.h"

namespace rueda {
namespace {

// MPI_Finalize would wait for a rank that is gone, or has not come.
std::atomic<int> reasons_not_to_finalize{0};
pid_t begun_by = 0;  // the process that began MPI; a forked child inherits its exit handlers

std::string_view level_name(int level) {
  constexpr std::array<std::string_view, 4> kNames{"MPI_THREAD_SINGLE", "MPI_THREAD_FUNNELED",
                                                   "MPI_THREAD_SERIALIZED", "MPI_THREAD_MULTIPLE"};
  static_assert(MPI_THREAD_SINGLE == 0 && MPI_THREAD_MULTIPLE == 3);
  return level >= 0 && level < 4 ? kNames[level] : "an unknown level";
}

bool is_finalized() {
  int finalized = 0;
  check(MPI_Finalized(&finalized), "MPI_Finalized");
  return finalized != 0;
}

// Began by us: ended by us, when everything else of the process has ended.
void finalize_at_exit() {
  const bool lost = reasons_not_to_finalize.load() > 0 || final_failure().code == StatusCode::peer_lost;
  if (getpid() == begun_by && !is_finalized() && !lost) MPI_Finalize();
}

// MPI_Finalize deletes what hangs on MPI_COMM_SELF first: the last moment to end our use of MPI, whoever
// began it. MPICH has stopped locking for threads before, so a program that begins MPI calls shutdown()
// itself.
int end_before_finalize(MPI_Comm, int, void*, void*) {
  shutdown();
  return MPI_SUCCESS;
}

void watch_for_finalize() {
  int key = MPI_KEYVAL_INVALID;
  check(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, end_before_finalize, &key, nullptr),
        "MPI_Comm_create_keyval");
  check(MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr), "MPI_Comm_set_attr");
}

int begin_mpi() {
  int level = MPI_THREAD_SINGLE;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level), "MPI_Init_thread");
  begun_by = getpid();
  std::atexit(finalize_at_exit);
  return level;
}

void check_level(int level) {
  if (level == MPI_THREAD_MULTIPLE) return;
  const bool ours = begun_by != 0;
  throw BackendError(Status::backend_error(
      fmt::format("MPI {} with {}, but Rueda's background thread needs MPI_THREAD_MULTIPLE. {}",
                  ours ? "starts only" : "was initialised by the program", level_name(level),
                  ours ? "Use an MPI library that was built with support for it."
                       : "Ask for that level in MPI_Init_thread, or call rueda::init() first.")));
}

// Hydra takes the end of this descriptor for the end of the rank: programs that the rank starts must not hold
// it.
void keep_launcher_from_children() {
  const char* number = std::getenv("PMI_FD");
  const int descriptor = number == nullptr ? -1 : std::atoi(number);
  const int flags = descriptor < 0 ? -1 : fcntl(descriptor, F_GETFD);
  if (flags >= 0) fcntl(descriptor, F_SETFD, flags | FD_CLOEXEC);
}

Rank started_ranks() {
  int size = 0;
  check(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  return size;
}

// A rank's own children have its environment, but not its line to the launcher: MPI would end them.
void check_own_line() {
  const char* number = std::getenv("PMI_FD");
  struct stat file {};
  if (number == nullptr || (fstat(std::atoi(number), &file) == 0 && S_ISSOCK(file.st_mode))) return;
  throw BackendError(Status::backend_error(fmt::format(
      "init: this process was started by rank {}, and is no rank itself: only the launcher starts "
      "those. For a job of its own start it without the variables PMI_FD, PMI_RANK and PMI_SIZE.",
      rank_from_launcher().value_or("?"))));
}

// MPI may be asked before it begins.
std::string library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  check(MPI_Get_library_version(text.data(), &length), "MPI_Get_library_version");
  return text.data();
}

constexpr const char* kAllCall = "MPI begins when every rank of the job has called init()";

[[noreturn]] void give_up(double timeout, const std::string& why) {
  throw PeerLost(Status::peer_lost(
      fmt::format("init: rank {} waited {} s in vain: {}. Start every rank, or allow more time by "
                  "RUEDA_START_TIMEOUT.",
                  rank_from_launcher().value_or("?"), timeout, why)));
}

}  // namespace

MpiRuntime& MpiRuntime::instance(double timeout) {
  if (is_finalized()) {
    throw BackendError(Status::backend_error(
        "The program has finalised MPI already. Call rueda::init() before MPI_Finalize()."));
  }
  static MpiRuntime runtime;
  std::lock_guard lock(runtime.mutex_);
  if (!runtime.start(clock_now() + from_seconds(timeout))) give_up(timeout, kAllCall);
  return runtime;
}

MpiGroup& MpiRuntime::group(std::vector<Rank> world_ranks, double timeout) {
  std::lock_guard lock(mutex_);
  if (are_all_ranks(world_ranks, started_ranks())) world_ranks.clear();
  std::unique_ptr<MpiGroup>& group = groups_[world_ranks];
  if (!group) group = std::make_unique<MpiGroup>(world_ranks);
  if (group->start(clock_now() + from_seconds(timeout))) return *group;
  give_up(timeout, world_ranks.empty() ? kAllCall : condition_of_start(world_ranks));
}

// Goes on from wherever an earlier call gave up.
bool MpiRuntime::start(Time deadline) {
  if (stage_ == Stage::untouched) begin();
  if (stage_ == Stage::ready) return true;
  if (!wait_for_future(level_, deadline)) return false;
  check_level(level_.get());
  keep_launcher_from_children();
  agent().tell_mpi();
  watch_for_finalize();
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  host_ = name.data();
  stage_ = Stage::ready;
  return true;
}

void MpiRuntime::begin() {
  int initialized = 0;
  check(MPI_Initialized(&initialized), "MPI_Initialized");
  if (initialized != 0) {
    std::promise<int> known;
    int level = MPI_THREAD_SINGLE;
    check(MPI_Query_thread(&level), "MPI_Query_thread");
    known.set_value(level);
    level_ = known.get_future().share();
  } else {
    check_own_line();
    check_launcher_is_understood(library_version());
    std::packaged_task<int()> task(begin_mpi);
    level_ = task.get_future().share();
    std::thread(std::move(task)).detach();  // it may be in there for as long as a rank is missing
  }
  stage_ = Stage::beginning;
}

void MpiRuntime::hold_back_finalize(int change) { reasons_not_to_finalize += change; }

}  // namespace rueda
