// SPDX-License-Identifier: Apache-2.0
// Memory that processes of one host share, without a name in any file system.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "core/base/system/descriptor.h"
#include "ops/shm/memory/segment_handle.h"
#include "rueda/status.h"

namespace rueda {

// Purpose: one mapping of a memfd. The maker keeps the descriptor, through which others open it, until this
// is destroyed. Nothing is left behind then, however the process ends; a process that has mapped the file
// keeps the memory. The writes of a forked child are its own. Pages that the child has not written follow the
// parent's writes, and read as zeroes once the parent has freed them. A child that needs a copy as of the
// fork makes it before. Ranks that are threads of one process share one mapping. "This host" means that it
// can be opened through /proc and that its name there holds the nonce. Any thread may use it.
class SharedFile {
  struct Key {};  // only make() and open() construct one

 public:
  struct Result;
  enum class Pages {
    all,        // there from the start
    by_demand,  // none; see claim()
  };

  // A new one of zeroes; `purpose` is for the error, which names the size wanted and the remedy, where there
  // is too little memory.
  static Result make(std::string_view purpose, std::size_t size, Pages pages);
  // `process`: a pidfd of the maker, where there is one. Most systems then need no /proc, which takes longer.
  static Result open(const SegmentHandle& handle, Pages pages, int process = -1);
  // The same by a descriptor that came another way, which it closes.
  static Result open(const SegmentHandle& handle, int descriptor, Pages pages);

  SharedFile(Key, const SegmentHandle& handle, bool made_here, Descriptor file, void* memory);
  ~SharedFile();
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  std::byte* data() const { return memory_; }
  std::size_t size() const { return handle_.size; }
  const SegmentHandle& handle() const { return handle_; }
  bool made_here() const { return made_here_; }

  // Of whole pages, by the maker: zeroed memory is there from now on, or an error with size and remedy. `all`
  // are mapped now, as huge pages where that is possible; else one by one, when they are touched.
  Status claim(std::string_view purpose, std::size_t offset, std::size_t bytes, Pages mapped = Pages::all);
  // In a forked child: what it writes is not seen by others any more.
  void make_private();
  // By the maker: the memory goes back to the system; who still reads it reads zeroes.
  void give_back(std::size_t offset, std::size_t bytes);

  static constexpr std::size_t kPage = 4096;
  // Memory that lies at a multiple of this size may get huge pages.
  static constexpr std::size_t kHugePage = std::size_t{2} << 20;
  static constexpr std::size_t whole_pages(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

 private:
  SegmentHandle handle_;
  const bool made_here_;
  const Descriptor file_;
  std::byte* memory_;
};

// A file, or the reason why there is none.
struct SharedFile::Result {
  std::shared_ptr<SharedFile> file;
  Status status;
};

}  // namespace rueda
