// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/job_output.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <utility>

namespace rueda {
namespace {

using Labels = std::shared_ptr<std::vector<std::string>>;

std::string label_of(const LaunchOptions& options, int rank, const std::string& host) {
  switch (options.label) {
    case LaunchOptions::Label::none: return "";
    case LaunchOptions::Label::rank: return fmt::format("[{}] ", rank);
    case LaunchOptions::Label::host: return fmt::format("[{}:{}] ", host, rank);
  }
  return "";
}

Labels labels_of(const LaunchOptions& options, const std::vector<HostRanks>& hosts) {
  auto labels = std::make_shared<std::vector<std::string>>(static_cast<std::size_t>(options.ranks));
  for (const HostRanks& host : hosts)
    for (const SlotInfo& slot : host.ranks)
      (*labels)[static_cast<std::size_t>(slot.rank)] = label_of(options, slot.rank, host.host);
  return labels;
}

Label before_each_line(const LaunchOptions& options, const Labels& labels) {
  if (options.label == LaunchOptions::Label::none && !options.prefix_time) return {};
  return [labels, time = options.prefix_time](int rank) {
    const std::string& text = (*labels)[static_cast<std::size_t>(rank)];
    return time ? fmt::format("{:%Y-%m-%d %H:%M:%S} {}", fmt::localtime(std::time(nullptr)), text) : text;
  };
}

std::array<RankOutput, JobOutput::kStreams> outputs_of(const LaunchOptions& options, const Labels& labels,
                                                       const WriterNews& news) {
  const Label label = before_each_line(options, labels);
  RankOutput output(STDOUT_FILENO, options.ranks, label, news);
  RankOutput errors = same_file(STDOUT_FILENO, STDERR_FILENO)
                          ? output.beside()
                          : RankOutput(STDERR_FILENO, options.ranks, label, news);
  return {std::move(output), std::move(errors)};
}

}  // namespace

JobOutput::JobOutput(const LaunchOptions& options, const std::vector<HostRanks>& hosts, bool terminal)
    : options_(options),
      shown_(options.shown),
      terminal_(terminal),
      labels_(labels_of(options, hosts)),
      outputs_(outputs_of(options, labels_, news_)) {
  if (options.output_folder.empty()) return;
  outputs_[0].keep_copies(options.output_folder, "stdout");
  outputs_[1].keep_copies(options.output_folder, "stderr");
}

void JobOutput::add_rank(int rank, const std::string& host) {
  labels_->resize(static_cast<std::size_t>(rank) + 1);
  labels_->back() = label_of(options_, rank, host);
  try {
    for (RankOutput& output : outputs_) output.keep_copies_of(rank);
  } catch (const UsageError& error) {
    say(fmt::format("ruedarun: {}", error.what()));
  }
}

void JobOutput::add(const agents::Output& output) {
  RankOutput& to = outputs_[static_cast<std::size_t>(output.stream)];
  to.copy(output.rank, output.text);
  if (!shown_.empty() && !shown_.contains(output.rank)) return;
  Dropped& dropped = dropped_[static_cast<std::size_t>(output.stream)];
  if (dropped.dropping) {
    dropped.lines += static_cast<std::uint64_t>(std::ranges::count(output.text, '\n'));
  } else if (terminal_ && output.rank == 0) {
    to.show_as_it_is(output.rank, output.text);
  } else {
    to.show(output.rank, output.text);
  }
}

void JobOutput::say(std::string_view line) { outputs_[1].add_line(line); }

void JobOutput::use(LineEnd line_end) {
  for (RankOutput& output : outputs_) output.use(line_end);
}

void JobOutput::show_due(LineMixer::Time now) {
  for (RankOutput& output : outputs_) output.show_due(now);
}

std::optional<LineMixer::Time> JobOutput::next_time() const {
  std::optional<LineMixer::Time> next;
  for (const RankOutput& output : outputs_)
    if (const auto time = output.next_time()) next = std::min(next.value_or(*time), *time);
  return next;
}

void JobOutput::flush() {
  for (RankOutput& output : outputs_) output.flush();
}

bool JobOutput::is_full(LineMixer::Time now, std::chrono::milliseconds timeout) {
  clear(news_);
  const bool first = is_full(0, now, timeout), second = is_full(1, now, timeout);
  return first || second;
}

bool JobOutput::is_full(std::size_t stream, LineMixer::Time now, std::chrono::milliseconds timeout) {
  RankOutput& output = outputs_[stream];
  Dropped& dropped = dropped_[stream];
  const bool full = output.writer().held() >= OutputWriter::kMuch;
  if (!dropped.dropping && output.writer().stuck(now, timeout)) {
    output.finish();  // a piece of a line would meet another line
    dropped.dropping = true;
  } else if (dropped.dropping && !full) {
    dropped.dropping = false;
    if (dropped.lines > 0)
      output.add_line(
          fmt::format("ruedarun: {} lines of the ranks' output are missing here: nobody has read it for some "
                      "seconds. --output-filename keeps all of it",
                      std::exchange(dropped.lines, 0)));
  }
  return (full && !dropped.dropping) || output.copies().held() >= OutputWriter::kMuch;
}

std::error_code JobOutput::lost() { return outputs_[0].writer().error(); }

std::error_code JobOutput::lost_copy() {
  const std::error_code error = outputs_[0].copies().error();
  return error ? error : outputs_[1].copies().error();
}

void JobOutput::finish() {
  for (RankOutput& output : outputs_) output.finish();
}

bool JobOutput::all_written() {
  return std::ranges::all_of(outputs_, [](RankOutput& output) {
    return output.writer().held() == 0 && output.copies().held() == 0;
  });
}

}  // namespace rueda
