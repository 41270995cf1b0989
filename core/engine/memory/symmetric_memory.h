// SPDX-License-Identifier: Apache-2.0
// Memory for tensors that the ranks of a host can all work on where it is.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace rueda {

// Purpose: gives such memory, zeroed and page by page there from the start, to any thread. It is alive as
// long as its pointer, after the job too. Each function throws BackendError where there is too little memory,
// naming the size wanted and the remedy.
class SymmetricMemory {
 public:
  virtual ~SymmetricMemory() = default;

  // For this rank's own tensors: an allreduce of them needs no copy. Null where this rank shares no memory,
  // or as much as it may (RUEDA_WINDOW_LIMIT). A forked child has a private copy.
  virtual std::shared_ptr<std::byte> allocate(std::size_t bytes) = 0;
  // Whether all of it lies in what allocate() gave.
  virtual bool contains(const void* memory, std::size_t bytes) const = 0;

  // One block for all ranks of the host that open its handle, beside that limit. Null where this rank shares
  // no memory.
  struct Block {
    std::shared_ptr<std::byte> memory;
    std::string handle;
  };
  virtual Block share(std::size_t bytes) = 0;
  // Null where the maker is of another host, or shares no memory.
  virtual std::shared_ptr<std::byte> open(const std::string& handle) = 0;
};

}  // namespace rueda
