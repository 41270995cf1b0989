// SPDX-License-Identifier: Apache-2.0
// How a rank that sleeps hears at once of the end of another process.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "core/base/system/descriptor.h"
#include "core/engine/wait/event_count.h"

namespace rueda {

// Purpose: waits for the ends of processes on one thread, which all ranks and groups of this process share.
// Its last user ends it. Guarded by its mutex; any thread may call it. A forked child has no such thread and
// hears of nothing.
class ProcessWatch {
 public:
  // Purpose: one user. Its doorbell rings once a process has ended, and `heard` is true from then on.
  struct Listener {
    explicit Listener(EventCount doorbell) : doorbell(std::move(doorbell)) {}
    EventCount doorbell;
    std::atomic<bool> heard{false};
  };

  static std::shared_ptr<ProcessWatch> of_this_process();
  ProcessWatch();
  ~ProcessWatch();
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;

  // `process` is a pidfd, and stays open until remove().
  void add(int process, std::shared_ptr<Listener> listener);
  void remove(int process);

 private:
  bool is_of_parent() const;
  void run();
  void tell(int process);

  const int forks_;  // where it was made
  Descriptor end_;   // an eventfd
  Descriptor events_;
  std::mutex mutex_;
  std::map<int, std::shared_ptr<Listener>> listeners_;  // by pidfd
  std::thread thread_;
};

}  // namespace rueda
