// SPDX-License-Identifier: Apache-2.0
#include "ops/mpi/mpi_runtime.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>
#include <thread>

#include "core/rueda.h"
#include "ops/launched.h"
#include "ops/mpi/mpi_check.h"

namespace rueda {
namespace {

std::atomic<bool> peer_lost{false};
pid_t begun_by = 0;  // the process that began MPI; a forked child inherits its exit handlers

std::string_view level_name(int level) {
  constexpr std::array<std::string_view, 4> kNames{"MPI_THREAD_SINGLE", "MPI_THREAD_FUNNELED",
                                                   "MPI_THREAD_SERIALIZED", "MPI_THREAD_MULTIPLE"};
  static_assert(MPI_THREAD_SINGLE == 0 && MPI_THREAD_MULTIPLE == 3);
  return level >= 0 && level < 4 ? kNames[level] : "an unknown level";
}

// Began by us: ended by us, when everything else of the process has ended.
void finalize_at_exit() {
  if (getpid() != begun_by) return;
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized == 0 && !peer_lost.load()) MPI_Finalize();
}

// MPI_Finalize deletes what hangs on MPI_COMM_SELF before anything else: the moment to end our use of MPI.
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

void start_or_adopt() {
  int initialized = 0, finalized = 0, level = MPI_THREAD_SINGLE;
  check(MPI_Finalized(&finalized), "MPI_Finalized");
  if (finalized != 0) {
    throw BackendError(Status::backend_error(
        "The program has finalised MPI already. Call rueda::init() before MPI_Finalize()."));
  }
  check(MPI_Initialized(&initialized), "MPI_Initialized");
  if (initialized != 0) {
    check(MPI_Query_thread(&level), "MPI_Query_thread");
    watch_for_finalize();
  } else {
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level), "MPI_Init_thread");
    begun_by = getpid();
    std::atexit(finalize_at_exit);
  }
  if (level == MPI_THREAD_MULTIPLE) return;
  throw BackendError(Status::backend_error(
      fmt::format("MPI {} with {}, but Rueda's coordinator thread needs MPI_THREAD_MULTIPLE. {}",
                  initialized != 0 ? "was initialised by the program" : "starts only", level_name(level),
                  initialized != 0 ? "Ask for that level in MPI_Init_thread, or call rueda::init() first."
                                   : "Use an MPI library that was built with support for it.")));
}

// Hydra takes the end of this descriptor for the end of the rank: programs that the rank starts must not hold
// it.
void keep_launcher_from_children() {
  const char* number = std::getenv("PMI_FD");
  const int descriptor = number == nullptr ? -1 : std::atoi(number);
  const int flags = descriptor < 0 ? -1 : fcntl(descriptor, F_GETFD);
  if (flags >= 0) fcntl(descriptor, F_SETFD, flags | FD_CLOEXEC);
}

MPI_Comm duplicate_world() {
  MPI_Comm communicator = MPI_COMM_NULL;
  check(MPI_Comm_dup(MPI_COMM_WORLD, &communicator), "MPI_Comm_dup");
  check(MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  return communicator;
}

}  // namespace

MpiRuntime& MpiRuntime::instance(double patience) {
  static const std::shared_future<MpiRuntime*> started = [] {
    std::packaged_task<MpiRuntime*()> start([] { return new MpiRuntime; });  // never destroyed
    std::shared_future<MpiRuntime*> future = start.get_future().share();
    std::thread(std::move(start)).detach();  // it may be in MPI for as long as a rank is missing
    return future;
  }();
  if (started.wait_for(std::chrono::duration<double>(patience)) == std::future_status::ready)
    return *started.get();
  throw PeerLost(Status::peer_lost(fmt::format(
      "init: rank {} waited {} s in vain: MPI begins when every rank of the job has called init(). "
      "Start every rank, or allow more time by RUEDA_START_TIMEOUT.",
      rank_from_launcher().value_or("?"), patience)));
}

MpiRuntime::MpiRuntime() {
  start_or_adopt();
  keep_launcher_from_children();
  agent_.tell_shared_memory();
  control_ = duplicate_world();
  data_ = duplicate_world();
  check(MPI_Comm_rank(control_, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(control_, &size_), "MPI_Comm_size");
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  host_ = name.data();
}

void MpiRuntime::mark_lost() { peer_lost.store(true); }

}  // namespace rueda
