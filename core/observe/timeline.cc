// SPDX-License-Identifier: Apache-2.0
#include "core/observe/timeline.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <vector>

#include "core/base/log.h"
#include "core/observe/rank_file.h"
#include "core/observe/timeline_merge.h"

namespace rueda {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kRingEvents = 1 << 16;  // 12 MB, only in processes that have traced
constexpr auto kLookEvery = std::chrono::milliseconds(5);
constexpr auto kFlushEvery = std::chrono::milliseconds(250);
constexpr std::size_t kFlushBytes = 256 << 10;
constexpr auto kWaitForOthers = std::chrono::seconds(1);

}  // namespace

Timeline::~Timeline() {
  if (Status status = stop(); !status.ok()) log(LogLevel::warning, "{}", status.message);
}

std::uint64_t Timeline::lost() const {
  const EventRing* ring = ring_.load(std::memory_order_acquire);
  return ring == nullptr ? 0 : ring->lost();
}

Status Timeline::start(const std::string& path, bool mark_cycles) {
  std::lock_guard lock(mutex_);
  if (writer_.joinable())
    return Status::invalid_argument(
        fmt::format("timeline: rank {} is writing '{}' already. Call stop_timeline() first.", identity_.rank,
                    path_of_rank(path_, identity_.rank)));
  auto file = std::make_unique<TraceFile>();
  if (Status opened = file->open(path_of_rank(path, identity_.rank)); !opened.ok()) return opened;
  if (Status begun = file->append(TraceJson(identity_).begin(++session_)); !begun.ok()) return begun;
  if (!own_ring_) {
    own_ring_ = std::make_unique<EventRing>(kRingEvents);
    ring_.store(own_ring_.get(), std::memory_order_release);
  }
  own_ring_->pop_all([](const TraceEvent&) {});  // late ones of an earlier timeline
  path_ = path;
  file_ = std::move(file);
  ending_ = false;
  writer_ = std::thread([this, lost = own_ring_->lost()] { write(*file_, lost); });
  mark_cycles_.store(mark_cycles, std::memory_order_relaxed);
  tracing_.store(true, std::memory_order_release);
  return {};
}

Status Timeline::stop() {
  std::lock_guard lock(mutex_);
  return end();
}

Status Timeline::stop(const std::string& path) {
  std::lock_guard lock(mutex_);
  return path_ == path ? end() : Status{};
}

Status Timeline::end() {
  if (!writer_.joinable()) return {};
  tracing_.store(false, std::memory_order_release);
  {
    std::lock_guard ending(ending_mutex_);
    ending_ = true;
  }
  ending_condition_.notify_all();
  writer_.join();
  file_.reset();
  return identity_.rank == 0 && identity_.size > 1 && !names_rank(path_) ? merge() : Status{};
}

// The timeline's thread.
void Timeline::write(TraceFile& file, std::uint64_t lost_earlier) {
  TraceJson text(identity_);
  std::string lines;
  bool failed = false;
  auto flush = [&] {
    if (failed) return;
    if (Status written = file.append(lines); !written.ok()) {
      failed = true;
      log(LogLevel::warning, "{}. The timeline ends here; the job goes on.", written.message);
    }
    lines.clear();
  };
  Clock::time_point flushed = Clock::now();
  bool last = false;
  while (true) {
    own_ring_->pop_all([&](const TraceEvent& event) {
      if (!failed) text.add(event, lines);
      if (lines.size() >= kFlushBytes) flush();
    });
    if (last) break;
    if (const Clock::time_point now = Clock::now(); now - flushed >= kFlushEvery) {
      flushed = now;
      flush();
    }
    std::unique_lock lock(ending_mutex_);
    last = ending_condition_.wait_for(lock, kLookEvery, [this] { return ending_; });
  }
  lines += text.end(own_ring_->lost() - lost_earlier);
  flush();
}

// At rank 0, when its own file is complete: one file for all ranks, if all can be had.
Status Timeline::merge() const {
  const std::optional<TimelineHeader> own = read_timeline_header(path_);
  std::vector<std::string> parts{path_};
  const Clock::time_point expires = Clock::now() + kWaitForOthers;
  for (Rank rank = 1; own && rank < identity_.size; ++rank) {
    const std::string part = path_of_rank(path_, rank);
    const std::optional<TimelineHeader> header = read_timeline_header(part);
    if (!header || !header->same_job(*own)) break;
    bool ended = timeline_ended(part);
    for (; !ended && Clock::now() < expires; ended = timeline_ended(part))
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (!ended) break;
    parts.push_back(part);
  }
  if (parts.size() != static_cast<std::size_t>(identity_.size)) {
    log(LogLevel::info,
        "timeline: the file of rank {} cannot be reached or is not complete; each rank has its own. "
        "'ruedarun --merge-timeline OUT FILES...' makes one of them.",
        parts.size());
    return {};
  }
  if (Status merged = merge_timelines(path_, parts); !merged.ok()) return merged;
  for (std::size_t i = 1; i < parts.size(); ++i) std::remove(parts[i].c_str());
  return {};
}

}  // namespace rueda
