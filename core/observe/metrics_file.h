// SPDX-License-Identifier: Apache-2.0
// Keeps a file with the metrics up to date.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace rueda {

// Purpose: a thread that writes `text()` to a file every `interval` and once more at the end, so that no
// thread of the job waits for a disk. A file that cannot be written is reported once; the job goes on. Made
// by the Runtime when RUEDA_METRICS_FILE is set; `text` is called on the thread until the destructor returns.
class MetricsFile {
 public:
  static constexpr std::chrono::milliseconds kInterval{5000};

  MetricsFile(std::string path, std::function<std::string()> text,
              std::chrono::milliseconds interval = kInterval);
  ~MetricsFile();

 private:
  void run(std::chrono::milliseconds interval);
  void write();

  const std::string path_;
  const std::function<std::string()> text_;
  bool reported_ = false;  // of the thread
  std::mutex mutex_;
  std::condition_variable ended_condition_;
  bool ended_ = false;  // guarded by mutex_
  std::thread thread_;  // last: it uses the others
};

}  // namespace rueda
