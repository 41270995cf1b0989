// SPDX-License-Identifier: Apache-2.0
// What a rank is doing and what it did last, readable by any thread at any time.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace rueda {

// Purpose: answers "what was each rank doing?" when something is stuck. The coordinator writes; the watchdog
// and tests read. Operations are guarded by the mutex, which nobody holds while calling anything else; the
// activity is one atomic pointer to a string that lives for ever. Lives in the Runtime.
class Recorder {
 public:
  void submitted(const std::string& name, std::string_view operation);
  void started(const std::string& name);
  void completed(const std::string& name, bool ok);
  void doing(std::string_view activity);  // a string that lives for ever

  // One line: what was completed last, and what is going on.
  std::string summary() const;
  // Several lines, each indented: the activity, operations in flight (oldest first), the last completed ones.
  std::string report() const;

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kRemembered = 16;

  struct InFlight {
    std::string_view operation;
    std::uint64_t order = 0;
    bool started = false;
    Clock::time_point since;
  };
  struct Completed {
    std::string name;
    std::string_view operation;
    bool ok = true;
    Clock::time_point at;
  };

  mutable std::mutex mutex_;
  std::map<std::string, InFlight> in_flight_;
  std::array<Completed, kRemembered> last_;
  std::uint64_t submitted_ = 0;
  std::uint64_t completed_ = 0;
  std::atomic<const char*> activity_{"starting"};
};

}  // namespace rueda
