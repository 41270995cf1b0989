// SPDX-License-Identifier: Apache-2.0
// How many messages each rank has sent, for receives from any source.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>

#include "ops/shm/memory/shared_file.h"

namespace rueda {

// Purpose: a rank counts the messages that it sends to each other one, by tag, in memory that the ranks of
// its host may read. So a rank that receives from any source sees the senders. The group's store tells the
// address of the memory. Guarded by its owner.
class SendCounts {
 public:
  SendCounts(c10::intrusive_ptr<c10d::Store> store, int rank, int size)
      : store_(std::move(store)), rank_(rank), size_(size) {}

  // This rank sends another message. Throws BackendError if there is too little memory.
  void note(int to, int tag);
  // How many `from` has sent to this rank with that tag. Throws InvalidArgument where its memory cannot be
  // read: it is on another host, or has sent messages of too many tags.
  std::uint64_t sent(int from, int tag);

 private:
  static constexpr int kTags = 64;

  struct Count {
    std::atomic<std::int64_t> tag_and_1{0};  // 0: none yet
    std::atomic<std::uint64_t> messages{0};
  };
  struct Row {
    Count counts[kTags];                   // in the order of first use
    std::atomic<std::uint64_t> others{0};  // of tags for which there is no room
  };

  Row* row(const SharedFile& file, int of) const;
  std::string key(int rank) const;

  const c10::intrusive_ptr<c10d::Store> store_;
  const int rank_;
  const int size_;
  std::shared_ptr<SharedFile> own_;
  std::map<int, std::shared_ptr<SharedFile>> others_;
};

}  // namespace rueda
