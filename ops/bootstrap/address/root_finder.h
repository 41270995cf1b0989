// SPDX-License-Identifier: Apache-2.0
// Looks for rank 0 in the background.
#pragma once

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "core/base/time.h"
#include "ops/bootstrap/address/root_address.h"

namespace rueda {

// Purpose: asks a RootAddress again and again: on a thread of its own where a name server, a network or a
// folder may keep it waiting. The thread ends soon after this object; where it waits for something that does
// not answer, it ends later. Used by the background thread.
class RootFinder {
 public:
  explicit RootFinder(std::unique_ptr<RootAddress> address);
  ~RootFinder();
  RootFinder(const RootFinder&) = delete;
  RootFinder& operator=(const RootFinder&) = delete;

  // The newest endpoint; nothing while there is none. Throws BackendError where the address never can be
  // found.
  std::optional<TcpEndpoint> found();
  // Sleeps until found() may have more to tell, for `longest` at most.
  void wait(Duration longest);
  const std::string& where() const { return where_; }

 private:
  // Shared with the thread.
  struct State {
    std::unique_ptr<RootAddress> address;
    std::mutex mutex;
    std::condition_variable over;
    std::condition_variable news;
    bool unwanted = false;
    std::optional<TcpEndpoint> endpoint;
    std::exception_ptr error;
  };
  static void look(State& state);
  static void look_again_and_again(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_;
  std::string where_;
  const Time begun_ = clock_now();
  Time again_{};        // without a thread: not before
  std::thread thread_;  // none where nothing keeps it waiting
};

}  // namespace rueda
