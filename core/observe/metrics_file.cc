// SPDX-License-Identifier: Apache-2.0
#include "core/observe/metrics_file.h"

#include <utility>

#include "core/base/log.h"
#include "core/observe/rank_file.h"

namespace rueda {

MetricsFile::MetricsFile(std::string path, std::function<std::string()> text,
                         std::chrono::milliseconds interval)
    : path_(std::move(path)), text_(std::move(text)), thread_([this, interval] { run(interval); }) {}

MetricsFile::~MetricsFile() {
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
  }
  ended_condition_.notify_all();
  thread_.join();
}

void MetricsFile::run(std::chrono::milliseconds interval) {
  std::unique_lock lock(mutex_);
  while (true) {
    const bool last = ended_;
    lock.unlock();
    write();
    lock.lock();
    if (last) return;
    ended_condition_.wait_for(lock, interval, [this] { return ended_; });
  }
}

void MetricsFile::write() {
  const Status written = replace_file(path_, text_());
  if (written.ok() || reported_) return;
  reported_ = true;
  log(LogLevel::warning, "metrics: {}. The job goes on without; RUEDA_METRICS_FILE names the file.",
      written.message);
}

}  // namespace rueda
