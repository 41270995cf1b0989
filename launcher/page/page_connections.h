// SPDX-License-Identifier: Apache-2.0
// The connections of the page's HTTP server, within bounds.
#pragma once

#include <httplib.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <set>

namespace rueda {

// Purpose: httplib's server with connections that end when they are told to. It has a thread for each, and
// closes those above its limit. Made and stopped by one thread; its other functions are called by its own.
class PageConnections : public httplib::Server {
 public:
  static constexpr int kMost = 24;

  PageConnections();
  ~PageConnections() override;

  // Until end() is called.
  void serve();
  void end();

 private:
  class Threads;

  bool process_and_close_socket(socket_t number) override;
  bool enter(int number);
  void leave(int number);
  void run(std::function<void()> work);

  std::mutex mutex_;
  std::condition_variable left_;
  std::set<int> open_;  // descriptors
  int threads_ = 0;
  std::atomic<bool> ending_{false};
  std::atomic<bool> is_listening_{false};
};

}  // namespace rueda
