// SPDX-License-Identifier: Apache-2.0
// How many messages a rank has sent to ranks of other hosts.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "core/base/time.h"

namespace rueda {

// By tag: messages, of kMost tags at most.
struct TagCounts {
  static constexpr std::size_t kMost = 64;

  void add(int tag);
  std::string to_bytes() const;
  // Nothing that is not of to_bytes() counts.
  static TagCounts from_bytes(const std::string& bytes);

  std::map<int, std::uint64_t> messages;
  bool has_others = false;  // there were more tags
};

// Purpose: the sender's side. The counts of its messages are in the group's store once a rank of another host
// has asked for them. A thread, which begins with the first message, asks the store and writes to it, so that
// no send waits for the store. Any thread may call it; guarded by the mutex.
class SendNotices {
 public:
  SendNotices(c10::intrusive_ptr<c10d::Store> store, int rank);
  ~SendNotices();
  SendNotices(const SendNotices&) = delete;
  SendNotices& operator=(const SendNotices&) = delete;

  void note(int to, int tag);
  // Nobody asks any more. Does not wait.
  void end();
  // After that: whether the thread is over within such a time.
  bool over_within(Duration longest);

 private:
  void run();
  bool has_been_asked();
  void publish();

  const c10::intrusive_ptr<c10d::Store> store_;
  const int rank_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, TagCounts> counts_;  // by receiver
  std::set<int> unpublished_;        // receivers
  bool ending_ = false;
  bool over_ = false;  // the thread ends
  std::thread thread_;
};

// Purpose: the receiver's side: what other ranks have published for this one. Used by one thread.
class HeardSends {
 public:
  HeardSends(c10::intrusive_ptr<c10d::Store> store, int rank);

  // How many messages `from` had published for this tag at the last look. The first call asks that rank.
  const TagCounts& sent(int from);
  // Asks the store, where other ranks have been asked.
  void look();

 private:
  std::int64_t published();

  const c10::intrusive_ptr<c10d::Store> store_;
  const int rank_;
  std::map<int, TagCounts> heard_;
  std::int64_t changes_ = 0;  // that this rank has seen
};

}  // namespace rueda
