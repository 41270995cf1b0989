// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/rank_output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <utility>

#include "launcher/cli/options.h"

namespace rueda {
namespace {

LineMixer::Prefix prefix_of(int ranks, Label label) {
  if (!label) return {};
  return [=](int source) { return label(source % ranks); };
}

}  // namespace

RankOutput::RankOutput(int descriptor, int ranks, Label label, WriterNews news)
    : RankOutput(descriptor, ranks, 0, std::make_shared<OutputWriter>(news),
                 std::make_shared<OutputWriter>(news),
                 std::make_shared<LineMixer>(2 * ranks, prefix_of(ranks, std::move(label)))) {}

RankOutput::RankOutput(int descriptor, int ranks, int first_source, std::shared_ptr<OutputWriter> writer,
                       std::shared_ptr<OutputWriter> copy_writer, std::shared_ptr<LineMixer> mixer)
    : descriptor_(descriptor),
      ranks_(ranks),
      first_source_(first_source),
      writer_(std::move(writer)),
      copy_writer_(std::move(copy_writer)),
      mixer_(std::move(mixer)) {}

RankOutput RankOutput::beside() const {
  return {descriptor_, ranks_, first_source_ + ranks_, writer_, copy_writer_, mixer_};
}

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

void RankOutput::copy(int rank, std::string_view text) {
  if (!copies_.empty())
    copy_writer_->add(copies_[static_cast<std::size_t>(rank)].number(), std::string(text));
}

void RankOutput::show(int rank, std::string_view text) {
  mixer_->add(first_source_ + rank, text, std::chrono::steady_clock::now());
}

void RankOutput::show_as_it_is(int rank, std::string_view text) {
  mixer_->add_as_it_is(first_source_ + rank, text, std::chrono::steady_clock::now());
}

void RankOutput::use(LineEnd line_end) {
  if (::isatty(descriptor_) == 1) mixer_->use(line_end);
}

void RankOutput::add_line(std::string_view line) { mixer_->add_own_line(line); }

void RankOutput::flush() { writer_->add(descriptor_, mixer_->take()); }

void RankOutput::finish() {
  mixer_->finish();
  flush();
}

}  // namespace rueda
