// SPDX-License-Identifier: Apache-2.0
// The recordings of a host's ranks, as their agent has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "core/base/bytes.h"
#include "launcher/system/descriptor.h"

namespace rueda {

// Purpose: reads the RecorderPage of each Runtime that a rank has begun, whatever has become of the rank. Of
// a rank that has ended it keeps a copy. A page whose job has ended in order is dropped when the rank sends
// another one. Owned by the agent's thread.
class RankRecordings {
 public:
  static constexpr std::size_t kMostPages = 64;  // of a rank; the oldest have to leave

  // The page is at `offset` of the file, which may be any file: only a regular one in memory is read.
  // `identity`: the ranks of the page's job, or "-", and behind a blank its name.
  void take(int rank, Descriptor file, std::uint64_t offset, const std::string& identity);
  // The rank has ended.
  void note_end(int rank);

  // All that can be read now, for read_rank_recordings(); without a page where there is none.
  std::string of(int rank) const { return later(rank)(); }
  // The same for another thread, at its time; the pages are those of now.
  std::function<std::string()> later(int rank) const;

 private:
  struct Page {
    Descriptor file;
    std::uint64_t offset = 0;
    std::string ranks;
    std::string name;
    std::optional<Bytes> kept;  // in place of the file
  };

  // Never changes, so that another thread may read it.
  using SharedPage = std::shared_ptr<const Page>;

  static std::optional<Bytes> read(const Page& page);

  std::map<int, std::deque<SharedPage>> pages_;
};

}  // namespace rueda
