// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/rank_output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <utility>

#include "launcher/cli/options.h"

namespace rueda {
namespace {

constexpr int kStreams = 2;  // that one mixer may mix

LineMixer::Prefix prefix_of(Label label) {
  if (!label) return {};
  return [label = std::move(label)](int source) { return label(source / kStreams); };
}

}  // namespace

RankOutput::RankOutput(int descriptor, int ranks, Label label, WriterNews news)
    : RankOutput(descriptor, ranks, 0, std::make_shared<OutputWriter>(news),
                 std::make_shared<OutputWriter>(news),
                 std::make_shared<LineMixer>(kStreams * ranks, prefix_of(std::move(label)))) {}

RankOutput::RankOutput(int descriptor, int ranks, int stream, std::shared_ptr<OutputWriter> writer,
                       std::shared_ptr<OutputWriter> copy_writer, std::shared_ptr<LineMixer> mixer)
    : descriptor_(descriptor),
      ranks_(ranks),
      stream_(stream),
      writer_(std::move(writer)),
      copy_writer_(std::move(copy_writer)),
      mixer_(std::move(mixer)) {}

RankOutput RankOutput::beside() const { return {descriptor_, ranks_, 1, writer_, copy_writer_, mixer_}; }

int RankOutput::source_of(int rank) const { return kStreams * rank + stream_; }

void RankOutput::keep_copies(const std::string& folder, const std::string& name) {
  allow_many_descriptors();
  files_ = {folder, name, std::to_string(ranks_ - 1).size()};
  for (int rank = 0; rank < ranks_; ++rank) keep_copies_of(rank);
}

void RankOutput::keep_copies_of(int rank) {
  if (files_.folder.empty()) return;
  const std::string folder = fmt::format("{}/rank.{:0{}}", files_.folder, rank, files_.digits);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const std::string path = folder + "/" + files_.name;
  copies_.resize(std::max(copies_.size(), static_cast<std::size_t>(rank) + 1));
  Descriptor& file = copies_[static_cast<std::size_t>(rank)];
  file = Descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file)
    throw UsageError(fmt::format("--output-filename: cannot write '{}': {}", path, std::strerror(errno)));
}

void RankOutput::copy(int rank, std::string_view text) {
  if (static_cast<std::size_t>(rank) < copies_.size() && copies_[static_cast<std::size_t>(rank)])
    copy_writer_->add(copies_[static_cast<std::size_t>(rank)].number(), std::string(text));
}

void RankOutput::show(int rank, std::string_view text) {
  mixer_->add(source_of(rank), text, std::chrono::steady_clock::now());
}

void RankOutput::show_as_it_is(int rank, std::string_view text) {
  mixer_->add_as_it_is(source_of(rank), text, std::chrono::steady_clock::now());
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
