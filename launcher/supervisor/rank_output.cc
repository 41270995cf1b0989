// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/rank_output.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <utility>

#include "launcher/cli/options.h"

namespace rueda {
namespace {

LineMixer::Prefix prefix_of(int ranks, bool rank, bool time) {
  if (!rank && !time) return {};
  return [=](int source) {
    std::string text;
    if (time) text += fmt::format("{:%Y-%m-%d %H:%M:%S} ", fmt::localtime(std::time(nullptr)));
    if (rank) text += fmt::format("[{}] ", source % ranks);
    return text;
  };
}

}  // namespace

RankOutput::RankOutput(int descriptor, int ranks, bool rank_in_prefix, bool time_in_prefix)
    : RankOutput(descriptor, ranks, 0,
                 std::make_shared<LineMixer>(2 * ranks, prefix_of(ranks, rank_in_prefix, time_in_prefix))) {}

RankOutput::RankOutput(int descriptor, int ranks, int first_source, std::shared_ptr<LineMixer> mixer)
    : descriptor_(descriptor), ranks_(ranks), first_source_(first_source), mixer_(std::move(mixer)) {}

RankOutput RankOutput::beside() const { return {descriptor_, ranks_, first_source_ + ranks_, mixer_}; }

void RankOutput::keep_copies(const std::string& folder, const std::string& name) {
  allow_many_descriptors();
  const std::size_t digits = std::to_string(ranks_ - 1).size();
  for (int rank = 0; rank < ranks_; ++rank) {
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
  if (rank < 0 || rank >= ranks_) return add_line(text);
  if (!copies_.empty()) write_all(copies_[static_cast<std::size_t>(rank)].number(), text);
  mixer_->add(first_source_ + rank, text, std::chrono::steady_clock::now());
}

void RankOutput::add_line(std::string_view line) { mixer_->add_own_line(line); }

std::error_code RankOutput::flush() { return write_all(descriptor_, mixer_->take()); }

std::error_code RankOutput::finish() {
  mixer_->finish();
  return flush();
}

}  // namespace rueda
