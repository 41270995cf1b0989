// SPDX-License-Identifier: Apache-2.0
#include "ops/shm/memory/shared_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "ops/shm/memory/free_memory.h"
#include "ops/shm/memory/host_lock.h"

namespace rueda {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// The mappings of this process by nonce. Guarded by the mutex, which a fork() waits for.
class Registry {
 public:
  Registry();
  std::shared_ptr<SharedFile> find(const SegmentHandle& handle) {
    std::lock_guard lock(mutex_);
    const auto known = files_.find(handle.nonce);
    return known == files_.end() ? nullptr : known->second.lock();
  }
  void add(const std::shared_ptr<SharedFile>& file) {
    std::lock_guard lock(mutex_);
    std::erase_if(files_, [](const auto& known) { return known.second.expired(); });
    files_[file->handle().nonce] = file;
  }

  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }
  // In a forked child: what it writes from now on is its own, as of all other memory.
  void leave_to_parent() {
    for (const auto& [nonce, known] : files_) {
      if (const std::shared_ptr<SharedFile> file = known.lock()) file->make_private();
    }
    files_.clear();
    unlock();
  }

 private:
  std::mutex mutex_;
  std::map<std::uint64_t, std::weak_ptr<SharedFile>> files_;
};

Registry& registry() {
  static Registry instance;
  return instance;
}

Registry::Registry() {
  pthread_atfork([] { registry().lock(); }, [] { registry().unlock(); },
                 [] { registry().leave_to_parent(); });
}

// Under which /proc shows it.
std::string name_of(std::uint64_t nonce) { return fmt::format("rueda-{:016x}", nonce); }

const char* remedy_for(int error) {
  switch (error) {
    case EMFILE: return ". Raise the limit of open files (ulimit -n)";
    case ENFILE: return ". Raise the limit of open files of the system (sysctl fs.file-max)";
    case ENOMEM:
      return ". Raise the limit of address space (ulimit -v), or set RUEDA_WINDOW_LIMIT to the bytes that "
             "gradients need";
    default: return "";
  }
}

Status system_error(const std::string& what, int error) {
  return Status::backend_error(fmt::format("{}: {}{}", what, std::strerror(error), remedy_for(error)));
}

Status too_little_memory(std::string_view purpose, std::size_t bytes, const std::string& found) {
  return Status::backend_error(fmt::format(
      "Too little memory for {} of {} KiB, which a rank shares with its host: {}. Run fewer "
      "ranks here, raise "
      "the memory limit of the container (or ulimit -v), lower RUEDA_WINDOW_LIMIT, or set RUEDA_SHM=0.",
      purpose, bytes >> 10, found));
}

// Asked before `rest` of `bytes` is taken: where a group of processes is at its limit the system ends one of
// them.
Status check_free(std::string_view purpose, std::size_t bytes, std::size_t rest) {
  const std::optional<std::int64_t> free = free_memory();
  if (!free || *free - *free / 8 >= static_cast<std::int64_t>(rest)) return {};
  return too_little_memory(purpose, bytes,
                           fmt::format("{} KiB are free, of which an eighth stays so", *free >> 10));
}

bool begins_huge_page(const void* memory) {
  return reinterpret_cast<std::uintptr_t>(memory) % SharedFile::kHugePage == 0;
}

// At a multiple of a huge page, so that such pages can be mapped. Below the last mapping there is room
// mostly: then one call is enough.
void* map(int file, std::size_t size, int kind) {
  constexpr std::size_t kSpare = SharedFile::kHugePage;
  static std::atomic<std::uintptr_t> last{0};
  const std::size_t step = (size + kSpare - 1) / kSpare * kSpare;
  if (const std::uintptr_t previous = last.load(); previous > step) {
    void* const wanted = reinterpret_cast<void*>(previous - step);
    void* const memory = mmap(wanted, size, PROT_READ | PROT_WRITE, MAP_SHARED | kind, file, 0);
    if (memory == MAP_FAILED) return memory;
    if (begins_huge_page(memory)) {
      last.store(reinterpret_cast<std::uintptr_t>(memory));
      return memory;
    }
    munmap(memory, size);
  }
  void* room = mmap(nullptr, size + kSpare, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return room;
  auto* const begin = static_cast<std::byte*>(room);
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(room) % kSpare;
  if (before > 0) munmap(begin, before);
  munmap(begin + before + size, kSpare - before);
  void* memory = mmap(begin + before, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | kind, file, 0);
  if (memory == MAP_FAILED) {
    munmap(begin + before, size);
  } else {
    last.store(reinterpret_cast<std::uintptr_t>(memory));
  }
  return memory;
}

// The whole huge pages in a range.
std::span<std::byte> huge_pages_in(std::span<std::byte> memory) {
  const auto first = reinterpret_cast<std::uintptr_t>(memory.data());
  const std::size_t before = std::min(memory.size(), -first % SharedFile::kHugePage);
  return memory.subspan(before, (memory.size() - before) / SharedFile::kHugePage * SharedFile::kHugePage);
}

void make_huge(std::span<std::byte> pages) {
  constexpr int kCollapse = 25;  // MADV_COLLAPSE, which not every C library knows
  if (!pages.empty()) madvise(pages.data(), pages.size(), kCollapse);
}

// Huge pages of zeroes for a part of a file that has none, and that is mapped at `memory`. The system makes a
// huge page only from one that has a small page already. It zeroes the rest once. Small pages that become a
// huge one would be zeroed one by one and then copied, which takes four times as long. A page that the system
// cannot make stays a hole.
void claim_huge_pages(int file, std::size_t offset, std::span<std::byte> memory) {
  const std::span<std::byte> pages = huge_pages_in(memory);
  const std::size_t first = offset + static_cast<std::size_t>(pages.data() - memory.data());
  for (std::size_t at = 0; at < pages.size(); at += SharedFile::kHugePage) {
    if (posix_fallocate(file, static_cast<off_t>(first + at), SharedFile::kPage) != 0) return;
  }
  make_huge(pages);
}

// Zeroed pages, by one rank of the host at a time, huge ones where the part is mapped at `memory`. In pieces:
// a signal may interrupt a call, which is then made again, and other programs take memory too, so each time
// it is asked for the rest.
Status claim_pages(std::string_view purpose, int file, std::size_t offset, std::size_t bytes,
                   std::byte* memory) {
  const HostLock lock;                        // else several ranks may find the same memory free
  std::size_t piece = std::size_t{32} << 20;  // smaller ones are through before the next signal
  for (const std::size_t begin = offset, end = offset + bytes; offset < end;) {
    if (Status status = check_free(purpose, bytes, end - offset); !status.ok()) return status;
    const std::size_t part = std::min(piece, end - offset);
    if (memory != nullptr) claim_huge_pages(file, offset, {memory + (offset - begin), part});
    const int error = posix_fallocate(file, static_cast<off_t>(offset), static_cast<off_t>(part));
    if (error != 0 && error != EINTR) return too_little_memory(purpose, bytes, std::strerror(error));
    if (error == 0) {
      offset += part;
    } else {
      piece = std::max(piece / 2, SharedFile::kPage);
    }
  }
  return {};
}

// Maps pages that are there for this process at once, and whole huge pages as such. So there are fewer and
// quicker faults here and in other processes, and the processor finds addresses quickly. Pages that the
// system cannot map at once are mapped one by one, when they are touched.
void map_at_once(std::span<std::byte> memory) {
  make_huge(huge_pages_in(memory));
  madvise(memory.data(), memory.size(), MADV_POPULATE_WRITE);
}

Status check_name(const SegmentHandle& handle, const std::string& path) {
  std::array<char, 64> target{};
  if (readlink(path.c_str(), target.data(), target.size() - 1) < 0)
    return system_error(fmt::format("looking at {}", path), errno);
  if (std::string_view(target.data()).starts_with("/memfd:" + name_of(handle.nonce))) return {};
  return Status::backend_error(
      fmt::format("{} is not the shared memory that was meant, but '{}'", path, target.data()));
}

Status look_at(const SegmentHandle& handle, int file) {
  struct stat status {};
  if (fstat(file, &status) != 0) return system_error("fstat of shared memory", errno);
  if (static_cast<std::uint64_t>(status.st_size) != handle.size) {
    return Status::backend_error(fmt::format(
        "The shared memory of process {} has {} bytes and is said to have {}. Are all ranks of one "
        "build?",
        handle.process_id, status.st_size, handle.size));
  }
  if ((fcntl(file, F_GET_SEALS) & F_SEAL_SHRINK) == 0) {
    return Status::backend_error(
        fmt::format("The shared memory of process {} could still shrink.", handle.process_id));
  }
  return {};
}

}  // namespace

SharedFile::SharedFile(Key, const SegmentHandle& handle, bool made_here, Descriptor file, void* memory)
    : handle_(handle),
      made_here_(made_here),
      file_(std::move(file)),
      memory_(static_cast<std::byte*>(memory)) {}

SharedFile::Result SharedFile::make(std::string_view purpose, std::size_t size, Pages pages) {
  auto failed = [](Status status) { return Result{nullptr, std::move(status)}; };
  size = whole_pages(size);
  rlimit most{};
  if (getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur < size) {  // beyond it there is a signal
    return failed(too_little_memory(purpose, size,
                                    fmt::format("files may have {} KiB (ulimit -f)", most.rlim_cur >> 10)));
  }
  SegmentHandle handle;
  handle.size = size;
  handle.secret = random_key();
  if (getrandom(&handle.nonce, sizeof handle.nonce, 0) != sizeof handle.nonce)
    return failed(system_error("getrandom", errno));
  Descriptor file(memfd_create(name_of(handle.nonce).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (file.number() < 0) return failed(system_error("memfd_create", errno));
  if (ftruncate(file.number(), static_cast<off_t>(size)) != 0)
    return failed(too_little_memory(purpose, size, std::strerror(errno)));
  if (fcntl(file.number(), F_ADD_SEALS, kSeals) != 0)
    return failed(system_error("sealing shared memory", errno));
  void* memory = map(file.number(), size, MAP_NORESERVE);
  if (memory == MAP_FAILED) return failed(too_little_memory(purpose, size, std::strerror(errno)));
  handle.process_id = getpid();
  handle.file = file.number();
  auto made = std::make_shared<SharedFile>(Key{}, handle, true, std::move(file), memory);
  // The size alone would not do: pages that turn out not to be there would be a SIGBUS later.
  if (pages == Pages::all) {
    if (Status claimed = made->claim(purpose, 0, size); !claimed.ok()) return failed(std::move(claimed));
  }
  registry().add(made);
  return {std::move(made), {}};
}

SharedFile::Result SharedFile::open(const SegmentHandle& handle, Pages pages, int process) {
  if (std::shared_ptr<SharedFile> known = registry().find(handle)) return {std::move(known), {}};
  // It opens nothing, so it does no harm in a process that was not meant.
  const auto given = process < 0 ? -1 : static_cast<int>(syscall(SYS_pidfd_getfd, process, handle.file, 0));
  if (given >= 0) {
    Result opened = open(handle, given, pages);
    if (opened.file) return opened;
  }
  const std::string path = fmt::format("/proc/{}/fd/{}", handle.process_id, handle.file);
  // Nothing else is opened: a process of that number may be another one here, with files of its own.
  if (Status status = check_name(handle, path); !status.ok()) return {nullptr, std::move(status)};
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return {nullptr, system_error(fmt::format("opening {}", path), errno)};
  return open(handle, descriptor, pages);
}

SharedFile::Result SharedFile::open(const SegmentHandle& handle, int descriptor, Pages pages) {
  Descriptor file(descriptor);
  auto failed = [](Status status) { return Result{nullptr, std::move(status)}; };
  Status status = check_name(handle, fmt::format("/proc/self/fd/{}", descriptor));
  if (status.ok()) status = look_at(handle, descriptor);
  if (!status.ok()) return failed(std::move(status));
  void* memory = map(descriptor, handle.size, pages == Pages::all ? MAP_POPULATE : MAP_NORESERVE);
  if (memory == MAP_FAILED)
    return failed(system_error(fmt::format("mapping the memory of process {}", handle.process_id), errno));
  auto opened = std::make_shared<SharedFile>(Key{}, handle, false, std::move(file), memory);
  registry().add(opened);
  return {std::move(opened), {}};
}

SharedFile::~SharedFile() { munmap(memory_, handle_.size); }

Status SharedFile::claim(std::string_view purpose, std::size_t offset, std::size_t bytes, Pages mapped) {
  std::byte* const memory = data() + offset;
  Status status =
      claim_pages(purpose, file_.number(), offset, bytes, mapped == Pages::all ? memory : nullptr);
  if (!status.ok()) {
    give_back(offset, bytes);
  } else if (mapped == Pages::all) {
    map_at_once({memory, bytes});
  }
  return status;
}

void SharedFile::make_private() {
  const int kind = MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE;
  if (mmap(memory_, handle_.size, PROT_READ | PROT_WRITE, kind, file_.number(), 0) == MAP_FAILED)
    mprotect(memory_, handle_.size, PROT_READ);  // rather no writing than into the parent's
}

void SharedFile::give_back(std::size_t offset, std::size_t bytes) {
  fallocate(file_.number(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
            static_cast<off_t>(bytes));
}

}  // namespace rueda
