// SPDX-License-Identifier: Apache-2.0
// Requests for a timeline, which somebody who watches the job makes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "core/base/system/descriptor.h"
#include "core/base/system/sealed_block.h"

namespace rueda {

// Steps of the training loop, by their numbers, and the file for them. A plain value.
struct TimelineRequest {
  std::uint64_t first = 0;  // so many steps have ended
  std::uint64_t last = 0;   // the one behind the last one
  std::string path;         // as for start_timeline()
};

// Purpose: memory in which the agent of this host asks a process for a timeline. One writer, the agent, and
// any number of readers. All zero: nobody has asked.
struct TimelineRequestPage {
  static constexpr std::size_t kBytes = 4096;
  static constexpr std::size_t kPathWords = kBytes / 8 - 4;
  enum Word : std::uint8_t { first, last, path };

  SealedBlock<path + kPathWords> words;

  // For the agent. False: the path is too long.
  bool write(const TimelineRequest& request);
  // How many requests there have been.
  std::uint64_t count() const { return load_word(words.finished); }
  // Nothing where there is none, or where it makes no sense.
  std::optional<TimelineRequest> read() const;
};
static_assert(sizeof(TimelineRequestPage) == TimelineRequestPage::kBytes);

// This process's page. Any thread may call it.
class TimelineRequests {
 public:
  static TimelineRequests& of_process();  // made at the first call, and never destroyed
  TimelineRequests();

  // Of the page's memory, for the agent. -1: there is none.
  int descriptor() const { return file_.number(); }
  const TimelineRequestPage& page() const { return *page_; }

 private:
  Descriptor file_;
  const TimelineRequestPage* page_;
};

}  // namespace rueda
