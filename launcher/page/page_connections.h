// SPDX-License-Identifier: Apache-2.0
// The connections of the page's HTTP server, within bounds.
#pragma once

#include <httplib.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <set>

#include "launcher/page/page_bounds.h"
#include "launcher/system/descriptor.h"

namespace rueda {

// Purpose: accepts connections, and lets httplib answer each in a thread of its own. Connections of strangers
// have places of their own: the oldest one is dropped when one more comes. Made and ended by one thread;
// serve() and admit() are called by others.
class PageConnections : public httplib::Server {
 public:
  static constexpr std::size_t kMostAdmitted = 24;
  static constexpr std::size_t kMostStrangers = 16;

  // Throws std::system_error.
  PageConnections(Descriptor listening, PageBounds bounds);
  ~PageConnections() override;

  // Accepts until end() is called, also where it has been called before.
  void serve();
  void end();

  // For the thread of a connection, in a request: its client is a stranger no more. False: there are too
  // many, or it has been dropped.
  bool admit();

 private:
  void accept_one();
  void take(Descriptor socket);
  void answer(const Descriptor& socket);
  void leave(int number);

  const Descriptor listening_;
  const Descriptor wakes_;  // readable: the end
  const PageBounds bounds_;
  std::mutex mutex_;
  std::condition_variable left_;
  std::deque<int> strangers_;  // descriptors, the oldest first
  std::set<int> admitted_;
  std::size_t threads_ = 0;
  std::atomic<bool> ending_{false};
};

}  // namespace rueda
