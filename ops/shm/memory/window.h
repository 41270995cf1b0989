// SPDX-License-Identifier: Apache-2.0
// The memory in which a rank keeps tensors that its host reduces in place.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "core/engine/memory/symmetric_memory.h"
#include "ops/shm/memory/shared_file.h"
#include "rueda/types.h"

namespace rueda {

// Purpose: one rank's window: a SharedFile of a large size, of which only what is allocated is there, so that
// everybody maps it once and a tensor is found by its offset. Made by the thread that makes
// RuntimeComponents; any thread allocates and frees (guarded by the mutex), the background thread asks for
// offsets. It lives until the last tensor in it is gone.
class Window final : public SymmetricMemory, public std::enable_shared_from_this<Window> {
 public:
  // Null, after a warning that names `rank`, where there can be none.
  static std::shared_ptr<Window> make(Rank rank, std::int64_t limit);
  explicit Window(std::shared_ptr<SharedFile> file);

  std::shared_ptr<std::byte> allocate(std::size_t bytes) override;
  bool contains(const void* memory, std::size_t bytes) const override {
    return offset_of(memory, bytes).has_value();
  }
  Block share(std::size_t bytes) override;
  std::shared_ptr<std::byte> open(const std::string& handle) override;

  // The offset of [memory, memory + bytes) in the window; nothing if it does not lie there.
  std::optional<std::uint64_t> offset_of(const void* memory, std::size_t bytes) const;
  const std::shared_ptr<SharedFile>& file() const { return file_; }

 private:
  std::optional<std::size_t> take(std::size_t bytes);
  std::optional<std::size_t> take_at(std::size_t bytes, std::size_t step);
  void put_back(std::size_t offset, std::size_t bytes);

  const std::shared_ptr<SharedFile> file_;
  std::mutex mutex_;
  std::map<std::size_t, std::size_t> free_;  // bytes by offset; guarded by the mutex
  std::size_t next_ = 0;                     // where the last one ended; guarded by the mutex
};

}  // namespace rueda
