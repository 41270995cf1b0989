// SPDX-License-Identifier: Apache-2.0
#include "launcher/dump/rank_recordings.h"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "core/observe/recorder_page.h"
#include "launcher/dump/recordings_message.h"

namespace rueda {
namespace {

// Only such a file can be read without waiting.
bool is_in_memory(int file) {
  struct stat about {};
  struct statfs system {};
  return ::fstat(file, &about) == 0 && S_ISREG(about.st_mode) && ::fstatfs(file, &system) == 0 &&
         (system.f_type == TMPFS_MAGIC || system.f_type == HUGETLBFS_MAGIC);
}

// A Runtime that has not begun has no recording yet.
bool is_over(ConstBytes page) {
  const std::optional<Recording> recording = read_recording(page);
  return recording && recording->ended_in_order;
}

}  // namespace

std::optional<Bytes> RankRecordings::read(const Page& page) {
  if (page.kept) return page.kept;
  Bytes bytes(sizeof(RecorderPage));
  const ssize_t count =
      ::pread(page.file.number(), bytes.data(), bytes.size(), static_cast<off_t>(page.offset));
  return count == static_cast<ssize_t>(bytes.size()) ? std::optional(std::move(bytes)) : std::nullopt;
}

void RankRecordings::take(int rank, Descriptor file, std::uint64_t offset, const std::string& identity) {
  if (!is_in_memory(file.number())) return;
  const std::size_t blank = std::min(identity.find(' '), identity.size());
  Page fresh{.file = std::move(file),
             .offset = offset,
             .ranks = identity.substr(0, blank),
             .name = blank < identity.size() ? identity.substr(blank + 1) : "",
             .kept = std::nullopt};
  std::deque<SharedPage>& pages = pages_[rank];
  std::erase_if(pages, [&](const SharedPage& page) {
    const std::optional<Bytes> bytes = page->name == fresh.name ? std::nullopt : read(*page);
    return !bytes || is_over(*bytes);
  });
  if (pages.size() == kMostPages) pages.pop_front();
  pages.push_back(std::make_shared<const Page>(std::move(fresh)));
}

void RankRecordings::note_end(int rank) {
  const auto found = pages_.find(rank);
  if (found == pages_.end()) return;
  for (SharedPage& page : found->second)
    page = std::make_shared<const Page>(
        Page{.file = {}, .offset = 0, .ranks = page->ranks, .name = page->name, .kept = read(*page)});
  std::erase_if(found->second, [](const SharedPage& page) { return !page->kept; });
}

std::function<std::string()> RankRecordings::later(int rank) const {
  const auto found = pages_.find(rank);
  return [pages = found == pages_.end() ? std::deque<SharedPage>() : found->second] {
    RankRecordingsWriter writer(monotonic_ns());
    for (const SharedPage& page : pages)
      if (const std::optional<Bytes> bytes = read(*page)) writer.add(page->ranks, page->name, *bytes);
    return writer.take();
  };
}

}  // namespace rueda
