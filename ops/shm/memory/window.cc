// SPDX-License-Identifier: Apache-2.0
#include "ops/shm/memory/window.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/base/error.h"
#include "core/base/log.h"

namespace rueda {

std::shared_ptr<Window> Window::make(Rank rank, std::int64_t limit) {
  // Address space only; more than the machine has is of no use.
  const std::int64_t machine = std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  const std::int64_t size = machine > 0 ? std::min(limit, machine) : limit;
  if (size < static_cast<std::int64_t>(SharedFile::kPage)) return nullptr;
  SharedFile::Result made =
      SharedFile::make("a window", static_cast<std::size_t>(size), SharedFile::Pages::by_demand);
  if (made.file) return std::make_shared<Window>(std::move(made.file));
  log(LogLevel::warning, "rank {}: tensors are not reduced in place. {}", rank, made.status.message);
  return nullptr;
}

Window::Window(std::shared_ptr<SharedFile> file) : file_(std::move(file)), free_{{0, file_->size()}} {}

std::shared_ptr<std::byte> Window::allocate(std::size_t bytes) {
  const std::size_t room = SharedFile::whole_pages(std::max<std::size_t>(bytes, 1));
  if (room < bytes || room > file_->size()) return nullptr;
  const std::optional<std::size_t> offset = take(room);
  if (!offset) return nullptr;
  if (const Status status = file_->claim("tensors", *offset, room); !status.ok()) {
    put_back(*offset, room);
    throw_if_error(status);
  }
  auto free = [self = shared_from_this(), offset = *offset, room](std::byte*) {
    if (getpid() != self->file_->handle().process_id) return;  // a forked child: it is the parent's
    self->file_->give_back(offset, room);
    self->put_back(offset, room);
  };
  return {file_->data() + *offset, std::move(free)};
}

SymmetricMemory::Block Window::share(std::size_t bytes) {
  SharedFile::Result made =
      SharedFile::make("tensors", std::max<std::size_t>(bytes, 1), SharedFile::Pages::all);
  throw_if_error(made.status);
  return {{made.file, made.file->data()}, to_bytes(made.file->handle())};
}

std::shared_ptr<std::byte> Window::open(const std::string& bytes) {
  const std::optional<SegmentHandle> handle = segment_handle_from(bytes);
  if (!handle) return nullptr;
  SharedFile::Result opened = SharedFile::open(*handle, SharedFile::Pages::all);
  if (opened.file) return {opened.file, opened.file->data()};
  log(LogLevel::info, "shared tensors cannot be opened: {}", opened.status.message);
  return nullptr;
}

std::optional<std::uint64_t> Window::offset_of(const void* memory, std::size_t bytes) const {
  const auto begin = reinterpret_cast<std::uintptr_t>(file_->data());
  const auto from = reinterpret_cast<std::uintptr_t>(memory);
  if (from < begin || from - begin > file_->size() || bytes > file_->size() - (from - begin))
    return std::nullopt;
  return from - begin;
}

// Next fit, round and round: the range freed last is used again last. So a late rank of a failed job does
// not write into somebody's new tensor. A tensor that fills a huge page begins with one, if there is
// room.
std::optional<std::size_t> Window::take(std::size_t bytes) {
  std::lock_guard lock(mutex_);
  std::optional<std::size_t> found;
  if (bytes >= SharedFile::kHugePage) found = take_at(bytes, SharedFile::kHugePage);
  return found ? found : take_at(bytes, SharedFile::kPage);
}

// At a multiple of `step`. Under the mutex.
std::optional<std::size_t> Window::take_at(std::size_t bytes, std::size_t step) {
  for (const std::size_t from : {next_, std::size_t{0}}) {
    auto range = free_.upper_bound(from);
    if (range != free_.begin()) --range;
    for (; range != free_.end(); ++range) {
      const auto [offset, room] = *range;
      const std::size_t begin = (std::max(offset, from) + step - 1) / step * step, end = offset + room;
      if (begin > end || bytes > end - begin) continue;
      free_.erase(range);
      if (begin > offset) free_.emplace(offset, begin - offset);
      if (begin + bytes < end) free_.emplace(begin + bytes, end - begin - bytes);
      next_ = begin + bytes;
      return begin;
    }
  }
  return std::nullopt;
}

void Window::put_back(std::size_t offset, std::size_t bytes) {
  std::lock_guard lock(mutex_);
  auto range = free_.emplace(offset, bytes).first;
  if (const auto after = std::next(range); after != free_.end() && offset + bytes == after->first) {
    range->second += after->second;
    free_.erase(after);
  }
  if (range == free_.begin()) return;
  if (const auto before = std::prev(range); before->first + before->second == offset) {
    before->second += range->second;
    free_.erase(range);
  }
}

}  // namespace rueda
