// SPDX-License-Identifier: Apache-2.0
// How many messages each rank has sent, for receives from any source.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "frameworks/torch/c10d/messages/send_notices.h"
#include "ops/shm/memory/shared_file.h"

namespace rueda {

// Purpose: a rank counts the messages that it sends to each other one, by tag, in memory that the ranks of
// its host may read. So a rank that receives from any source sees the senders. The group's store tells the
// address of the memory. Ranks of other hosts hear of the counts by the store. Guarded by its owner.
class SendCounts {
 public:
  // `several_hosts`: there are ranks that cannot read the memory.
  SendCounts(c10::intrusive_ptr<c10d::Store> store, int rank, int size, bool several_hosts);

  // This rank sends another message. Throws BackendError if there is too little memory.
  void note(int to, int tag);
  // How many `from` has sent to this rank with that tag. Throws InvalidArgument if it has sent messages of
  // too many tags, and if its memory cannot be read though there is one host.
  std::uint64_t sent(int from, int tag);
  // Asks the store about ranks of other hosts. By the thread that calls sent(); it need not be guarded.
  void look_elsewhere() { heard_.look(); }
  // Nobody asks any more. Does not wait.
  void end();
  // After that: whether its thread is over within such a time.
  bool over_within(Duration longest) { return !notices_ || notices_->over_within(longest); }

 private:
  static constexpr int kTags = TagCounts::kMost;

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
  SharedFile* file_of(int from);
  [[noreturn]] static void refuse_tags(int from);

  const c10::intrusive_ptr<c10d::Store> store_;
  const int rank_;
  const int size_;
  std::shared_ptr<SharedFile> own_;
  std::map<int, std::shared_ptr<SharedFile>> others_;
  std::set<int> elsewhere_;
  const std::unique_ptr<SendNotices> notices_;  // null on one host
  HeardSends heard_;
};

}  // namespace rueda
