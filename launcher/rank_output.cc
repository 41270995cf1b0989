// SPDX-License-Identifier: Apache-2.0
#include "launcher/rank_output.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "launcher/options.h"

namespace rueda {

RankOutput::RankOutput(int descriptor, int ranks, bool prefix)
    : descriptor_(descriptor), prefix_(prefix), unfinished_(static_cast<std::size_t>(ranks)) {}

void RankOutput::keep_copies(const std::string& folder, const std::string& name) {
  allow_many_descriptors();
  std::size_t digits = std::to_string(unfinished_.size() - 1).size();
  for (std::size_t rank = 0; rank < unfinished_.size(); ++rank) {
    std::string rank_folder = fmt::format("{}/rank.{:0{}}", folder, rank, digits);
    std::error_code error;
    std::filesystem::create_directories(rank_folder, error);
    std::string path = rank_folder + "/" + name;
    copies_.emplace_back(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (!copies_.back())
      throw UsageError(fmt::format("--output-filename: cannot write '{}': {}", path, std::strerror(errno)));
  }
}

void RankOutput::add(int rank, std::string_view text) {
  if (rank < 0 || static_cast<std::size_t>(rank) >= unfinished_.size()) return add_line(text);
  if (!copies_.empty()) write_all(copies_[static_cast<std::size_t>(rank)].number(), text);
  std::string& line = unfinished_[static_cast<std::size_t>(rank)];
  while (!text.empty()) {
    std::size_t end = text.find('\n');
    std::size_t room = kLongestLine - line.size();
    std::size_t count = std::min(end == std::string_view::npos ? text.size() : end, room);
    line.append(text.substr(0, count));
    text.remove_prefix(count);
    if (text.starts_with('\n')) {
      text.remove_prefix(1);
      end_line(rank, true);
    } else if (line.size() == kLongestLine) {
      end_line(rank, false);
    }
  }
}

// A line that is not complete gets an end where prefixes need one, and none where the output is passed on as
// it is.
void RankOutput::end_line(int rank, bool complete) {
  std::string& line = unfinished_[static_cast<std::size_t>(rank)];
  if (show_time_) ready_ += fmt::format("{:%Y-%m-%d %H:%M:%S} ", fmt::localtime(std::time(nullptr)));
  if (prefix_) ready_ += fmt::format("[{}] ", rank);
  ready_ += line;
  if (complete || prefix_) ready_ += '\n';
  line.clear();
}

void RankOutput::add_line(std::string_view line) {
  ready_ += line;
  if (!line.ends_with('\n')) ready_ += '\n';
}

bool RankOutput::flush() {
  bool written = write_all(descriptor_, ready_);
  ready_.clear();
  return written;
}

bool RankOutput::finish() {
  for (std::size_t rank = 0; rank < unfinished_.size(); ++rank)
    if (!unfinished_[rank].empty()) end_line(static_cast<int>(rank), false);
  return flush();
}

}  // namespace rueda
