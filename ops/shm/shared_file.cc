// SPDX-License-Identifier: Apache-2.0
#include "ops/shm/shared_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "ops/shm/free_memory.h"

namespace rueda {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// A descriptor that is closed at the end of a scope, unless it is taken.
class File {
 public:
  explicit File(int number) : number_(number) {}
  ~File() {
    if (number_ >= 0) close(number_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int number() const { return number_; }
  int take() { return std::exchange(number_, -1); }

 private:
  int number_;
};

// The mappings of this process by nonce. Guarded by the mutex.
struct Registry {
  std::mutex mutex;
  std::map<std::uint64_t, std::weak_ptr<SharedFile>> files;
};

Registry& registry() {
  static Registry instance;
  return instance;
}

// Under which /proc shows it.
std::string name_of(std::uint64_t nonce) { return fmt::format("rueda-{:016x}", nonce); }

Status system_error(const std::string& what, int error) {
  return Status::backend_error(fmt::format("{}: {}", what, std::strerror(error)));
}

Status too_little_memory(std::string_view purpose, std::size_t bytes, const std::string& found) {
  return Status::backend_error(
      fmt::format("Too little memory for {} of {} KiB, which a rank shares with its host: {}. Run fewer "
                  "ranks here, raise "
                  "the memory limit of the container, or set RUEDA_SHM=0.",
                  purpose, bytes >> 10, found));
}

// Asked before memory is taken: where a group of processes is at its limit the system ends one of them.
Status check_free(std::string_view purpose, std::size_t bytes) {
  const std::optional<std::int64_t> free = free_memory();
  if (!free || *free - *free / 8 >= static_cast<std::int64_t>(bytes)) return {};
  return too_little_memory(purpose, bytes,
                           fmt::format("{} KiB are free, of which an eighth stays so", *free >> 10));
}

void* map(int file, std::size_t size, SharedFile::Pages pages) {
  const int kind = pages == SharedFile::Pages::all ? MAP_POPULATE : MAP_NORESERVE;
  return mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | kind, file, 0);
}

Status look_at(const Card& card, int file) {
  struct stat status {};
  if (fstat(file, &status) != 0) return system_error("fstat of shared memory", errno);
  if (static_cast<std::uint64_t>(status.st_size) != card.size) {
    return Status::backend_error(fmt::format(
        "The shared memory of process {} has {} bytes and is said to have {}. Are all ranks of one "
        "build?",
        card.process_id, status.st_size, card.size));
  }
  if ((fcntl(file, F_GET_SEALS) & F_SEAL_SHRINK) == 0) {
    return Status::backend_error(
        fmt::format("The shared memory of process {} could still shrink.", card.process_id));
  }
  return {};
}

}  // namespace

SharedFile::SharedFile(Key, const Card& card, int file, void* memory)
    : card_(card), file_(file), memory_(static_cast<std::byte*>(memory)) {}

SharedFile::Result SharedFile::make(std::string_view purpose, std::size_t size, Pages pages) {
  auto failed = [](Status status) { return Result{nullptr, std::move(status)}; };
  size = whole_pages(size);
  rlimit most{};
  if (getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur < size) {  // beyond it there is a signal
    return failed(too_little_memory(purpose, size,
                                    fmt::format("files may have {} KiB (ulimit -f)", most.rlim_cur >> 10)));
  }
  if (pages == Pages::all) {
    if (Status status = check_free(purpose, size); !status.ok()) return failed(std::move(status));
  }
  Card card;
  card.size = size;
  if (getrandom(&card.nonce, sizeof card.nonce, 0) != sizeof card.nonce)
    return failed(system_error("getrandom", errno));
  File file(memfd_create(name_of(card.nonce).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (file.number() < 0) return failed(system_error("memfd_create", errno));
  // Not by ftruncate alone: pages that turn out not to be there would be a SIGBUS later.
  const int error = pages == Pages::all ? posix_fallocate(file.number(), 0, static_cast<off_t>(size))
                    : ftruncate(file.number(), static_cast<off_t>(size)) == 0 ? 0
                                                                              : errno;
  if (error != 0) return failed(too_little_memory(purpose, size, std::strerror(error)));
  if (fcntl(file.number(), F_ADD_SEALS, kSeals) != 0)
    return failed(system_error("sealing shared memory", errno));
  void* memory = map(file.number(), size, pages);
  if (memory == MAP_FAILED) return failed(too_little_memory(purpose, size, std::strerror(errno)));
  card.process_id = getpid();
  card.file = file.number();
  auto made = std::make_shared<SharedFile>(Key{}, card, file.take(), memory);
  std::lock_guard lock(registry().mutex);
  std::erase_if(registry().files, [](const auto& known) { return known.second.expired(); });
  registry().files[card.nonce] = made;
  return {std::move(made), {}};
}

SharedFile::Result SharedFile::open(const Card& card, Pages pages) {
  std::lock_guard lock(registry().mutex);
  if (std::shared_ptr<SharedFile> known = registry().files[card.nonce].lock()) return {std::move(known), {}};

  const std::string path = fmt::format("/proc/{}/fd/{}", card.process_id, card.file);
  auto failed = [](Status status) { return Result{nullptr, std::move(status)}; };
  // Nothing else is opened: a process of that number may be another one here, with files of its own.
  std::array<char, 64> target{};
  if (readlink(path.c_str(), target.data(), target.size() - 1) < 0)
    return failed(system_error(fmt::format("looking at {}", path), errno));
  if (!std::string_view(target.data()).starts_with("/memfd:" + name_of(card.nonce))) {
    return failed(Status::backend_error(
        fmt::format("{} is not the shared memory that was meant, but '{}'", path, target.data())));
  }
  File file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (file.number() < 0) return failed(system_error(fmt::format("opening {}", path), errno));
  if (Status status = look_at(card, file.number()); !status.ok()) return failed(std::move(status));
  void* memory = map(file.number(), card.size, pages);
  if (memory == MAP_FAILED) return failed(system_error(fmt::format("mapping {}", path), errno));
  auto opened = std::make_shared<SharedFile>(Key{}, card, -1, memory);
  registry().files[card.nonce] = opened;
  return {std::move(opened), {}};
}

SharedFile::~SharedFile() {
  munmap(memory_, card_.size);
  if (file_ >= 0) close(file_);
}

Status SharedFile::claim(std::string_view purpose, std::size_t offset, std::size_t bytes) {
  if (Status status = check_free(purpose, bytes); !status.ok()) return status;
  const int error = posix_fallocate(file_, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  if (error == 0) {
    // Maps them for this process at once; where the system cannot, each page is mapped when it is touched.
    madvise(data() + offset, bytes, MADV_POPULATE_WRITE);
    return {};
  }
  give_back(offset, bytes);
  return too_little_memory(purpose, bytes, std::strerror(error));
}

void SharedFile::give_back(std::size_t offset, std::size_t bytes) {
  fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
            static_cast<off_t>(bytes));
}

}  // namespace rueda
