// SPDX-License-Identifier: Apache-2.0
// Shared memory in which autograd makes gradients.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "core/engine/memory/symmetric_memory.h"

namespace rueda {

// Purpose: blocks that all ranks of the host reach, one for the gradient of each parameter. A tensor that a
// backward pass makes gets a free block of its size, if there is one: so a gradient is reduced where it was
// computed, and the pages of one step serve the next. To that end an allocator is put in front of torch's for
// CPU memory when the first GradientAllocator is made; outside of backward passes, and on threads that none
// serves, it only passes on. Any thread may use it (guarded by its mutex). A block comes back when its tensor
// is gone, and outlives this object until then.
class GradientAllocator : public std::enable_shared_from_this<GradientAllocator> {
 public:
  explicit GradientAllocator(std::shared_ptr<SymmetricMemory> memory);

  // A block of each of these sizes, in bytes, beside those there are. Throws BackendError if memory is short;
  // false if no more may be had.
  bool add(const std::vector<std::size_t>& sizes);
  std::size_t bytes() const { return bytes_; }  // that add() has got

  // From now on for backward passes that run on the calling thread.
  void serve_this_thread();

  // A free block of that size, for give_back(); null when there is none.
  void* take(std::size_t bytes);
  // Returns true if take() of this object has given this memory, and it has not come back.
  bool gave(const void* block) const;
  // From any thread; false when it is no block that anybody took.
  static bool give_back(void* block);

 private:
  using Block = std::shared_ptr<std::byte>;

  const std::shared_ptr<SymmetricMemory> memory_;
  std::size_t bytes_ = 0;  // used by the thread that adds
  std::mutex mutex_;
  std::map<std::size_t, std::vector<Block>> free_;  // by size; guarded by the mutex
};

}  // namespace rueda
