// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/job_output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <utility>

namespace rueda {
namespace {

constexpr std::size_t kMostSaid = 64 << 10;

// It stands on the command line of mpiexec: no secret, only nothing that a rank writes by accident.
std::string random_mark() {
  std::random_device source;
  return fmt::format("{:08x}{:08x}", source(), source());
}

std::array<RankOutput, JobOutput::kStreams> outputs_of(const LaunchOptions& options) {
  RankOutput output(STDOUT_FILENO, options.ranks, options.prefix, options.prefix_time);
  RankOutput errors = same_file(STDOUT_FILENO, STDERR_FILENO)
                          ? output.beside()
                          : RankOutput(STDERR_FILENO, options.ranks, options.prefix, options.prefix_time);
  return {std::move(output), std::move(errors)};
}

}  // namespace

JobOutput::JobOutput(const LaunchOptions& options)
    : token_(random_mark()),
      label_(OutputDemux::label_pattern(token_)),
      outputs_(outputs_of(options)),
      streams_{
          OutputDemux(token_,
                      [this](int rank, std::string_view text) {
                        if (rank != OutputDemux::kMpiexec) return outputs_[0].add(rank, text);
                        if (mpiexec_said_.size() < kMostSaid) mpiexec_said_ += text;
                      }),
          OutputDemux(token_, [this](int rank, std::string_view text) { outputs_[1].add(rank, text); })} {
  if (options.output_folder.empty()) return;
  outputs_[0].keep_copies(options.output_folder, "stdout");
  outputs_[1].keep_copies(options.output_folder, "stderr");
}

std::array<Descriptor, JobOutput::kStreams> JobOutput::open() {
  std::array<Descriptor, kStreams> write_ends;
  for (std::size_t stream = 0; stream < kStreams; ++stream) {
    Pipe pipe = make_pipe();
    pipes_[stream] = std::move(pipe.read_end);
    set_non_blocking(pipes_[stream].number());
    write_ends[stream] = std::move(pipe.write_end);
  }
  return write_ends;
}

bool JobOutput::read(std::size_t stream) {
  Descriptor& pipe = pipes_[stream];
  const std::string_view bytes = read_some(pipe.number());
  const bool ended = bytes.empty() && errno != EAGAIN && errno != EINTR;
  streams_[stream].feed(bytes);
  if (ended) pipe.close();
  return !bytes.empty();
}

void JobOutput::flush() {
  const std::error_code error = outputs_[0].flush();
  if (!lost_) lost_ = error;
  outputs_[1].flush();
}

void JobOutput::say(std::string_view line) { outputs_[1].add_line(line); }

void JobOutput::show_due(LineMixer::Time now) {
  for (RankOutput& output : outputs_) output.show_due(now);
}

std::optional<LineMixer::Time> JobOutput::next_time() const {
  std::optional<LineMixer::Time> next;
  for (const RankOutput& output : outputs_)
    if (const auto time = output.next_time()) next = std::min(next.value_or(*time), *time);
  return next;
}

void JobOutput::read_rest() {
  for (std::size_t stream = 0; stream < kStreams; ++stream) {
    while (pipes_[stream] && read(stream)) flush();
    streams_[stream].finish();
  }
}

void JobOutput::finish() {
  const std::error_code error = outputs_[0].finish();
  if (!lost_) lost_ = error;
  outputs_[1].finish();
}

}  // namespace rueda
