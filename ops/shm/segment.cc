// SPDX-License-Identifier: Apache-2.0
#include "ops/shm/segment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>

#include "ops/shm/free_memory.h"

namespace rueda {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kSize = (sizeof(SegmentContents) + kPage - 1) / kPage * kPage;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr std::string_view kName = "/memfd:rueda";

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

// The mappings of this process by nonce, so that ranks that are its threads get the same one. Guarded by the
// mutex.
struct Registry {
  std::mutex mutex;
  std::map<std::uint64_t, std::weak_ptr<Segment>> segments;
};

Registry& registry() {
  static Registry instance;
  return instance;
}

Status system_error(const std::string& what, int error) {
  return Status::backend_error(fmt::format("{}: {}", what, std::strerror(error)));
}

Status too_little_memory(const std::string& found) {
  return Status::backend_error(
      fmt::format("Too little memory for a segment of {} KiB, which each rank shares with its host: {}. Run "
                  "fewer ranks here, raise the memory limit of the container, or set RUEDA_SHM=0.",
                  kSize >> 10, found));
}

void* map(int file) {
  return mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
}

Status look_at(const Card& card, int file) {
  struct stat status {};
  if (fstat(file, &status) != 0) return system_error("fstat of a segment", errno);
  if (card.size != kSize || static_cast<std::uint64_t>(status.st_size) != kSize) {
    return Status::backend_error(
        fmt::format("The segment of process {} has {} bytes and is said to have {}; it must have {}. Are all "
                    "ranks of one "
                    "build?",
                    card.process_id, status.st_size, card.size, kSize));
  }
  if ((fcntl(file, F_GET_SEALS) & F_SEAL_SHRINK) == 0) {
    return Status::backend_error(
        fmt::format("The segment of process {} could still shrink.", card.process_id));
  }
  return {};
}

}  // namespace

Segment::Result Segment::make() {
  if (const std::optional<std::int64_t> free = free_memory(); free && *free < std::int64_t{2 * kSize})
    return {nullptr, too_little_memory(fmt::format("{} KiB are free", *free >> 10))};
  Card card;
  if (getrandom(&card.nonce, sizeof card.nonce, 0) != sizeof card.nonce)
    return {nullptr, system_error("getrandom", errno)};
  File file(memfd_create(kName.data() + sizeof "/memfd:" - 1, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (file.number() < 0) return {nullptr, system_error("memfd_create", errno)};
  // Not by ftruncate: pages that turn out not to be there would be a SIGBUS later.
  if (const int error = posix_fallocate(file.number(), 0, kSize); error != 0)
    return {nullptr, too_little_memory(std::strerror(error))};
  if (fcntl(file.number(), F_ADD_SEALS, kSeals) != 0)
    return {nullptr, system_error("sealing a segment", errno)};
  void* memory = map(file.number());
  if (memory == MAP_FAILED) return {nullptr, too_little_memory(std::strerror(errno))};
  card.process_id = getpid();
  card.file = file.number();
  card.size = kSize;
  std::construct_at(static_cast<SegmentContents*>(memory))->nonce = card.nonce;
  auto segment = std::make_shared<Segment>(Key{}, card, file.take(), memory);
  std::lock_guard lock(registry().mutex);
  std::erase_if(registry().segments, [](const auto& known) { return known.second.expired(); });
  registry().segments[card.nonce] = segment;
  return {std::move(segment), {}};
}

Segment::Result Segment::open(const Card& card) {
  std::lock_guard lock(registry().mutex);
  if (std::shared_ptr<Segment> segment = registry().segments[card.nonce].lock())
    return {std::move(segment), {}};

  const std::string path = fmt::format("/proc/{}/fd/{}", card.process_id, card.file);
  auto failed = [](Status status) { return Result{nullptr, std::move(status)}; };
  // Nothing but a segment is opened: a process of that number may be another one here, with files of its own.
  std::array<char, 64> target{};
  if (readlink(path.c_str(), target.data(), target.size() - 1) < 0)
    return failed(system_error(fmt::format("looking at {}", path), errno));
  if (!std::string_view(target.data()).starts_with(kName))
    return failed(Status::backend_error(fmt::format("{} is not a segment of Rueda's", path)));
  File file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (file.number() < 0) return failed(system_error(fmt::format("opening {}", path), errno));
  if (Status status = look_at(card, file.number()); !status.ok()) return failed(std::move(status));
  void* memory = map(file.number());
  if (memory == MAP_FAILED) return failed(system_error(fmt::format("mapping {}", path), errno));
  auto segment = std::make_shared<Segment>(Key{}, card, -1, memory);
  const SegmentContents& contents = segment->contents();
  if (contents.magic != SegmentContents::kMagic || contents.version != SegmentContents::kVersion ||
      contents.nonce != card.nonce) {
    return failed(Status::backend_error(fmt::format("{} is not the segment that was meant", path)));
  }
  registry().segments[card.nonce] = segment;
  return {std::move(segment), {}};
}

Segment::~Segment() {
  munmap(memory_, kSize);
  if (file_ >= 0) close(file_);
}

}  // namespace rueda
