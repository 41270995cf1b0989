// SPDX-License-Identifier: Apache-2.0
#include "launcher/job_output.h"

#include <fmt/format.h>
#include <unistd.h>

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

}  // namespace

JobOutput::JobOutput(const LaunchOptions& options)
    : token_(random_mark()),
      label_(LabelledStream::label_pattern(token_)),
      outputs_{RankOutput(STDOUT_FILENO, options.ranks, options.prefix),
               RankOutput(STDERR_FILENO, options.ranks, options.prefix)},
      streams_{
          LabelledStream(token_,
                         [this](int rank, std::string_view text) {
                           if (rank != LabelledStream::kMpiexec) return outputs_[0].add(rank, text);
                           if (mpiexec_said_.size() < kMostSaid) mpiexec_said_ += text;
                         }),
          LabelledStream(token_, [this](int rank, std::string_view text) { outputs_[1].add(rank, text); })} {
  for (RankOutput& output : outputs_)
    if (options.prefix_time) output.show_time();
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

void JobOutput::read(std::size_t stream) { read_some_of(stream); }

bool JobOutput::read_some_of(std::size_t stream) {
  Descriptor& pipe = pipes_[stream];
  const std::string_view bytes = read_some(pipe.number());
  const bool ended = bytes.empty() && errno != EAGAIN && errno != EINTR;
  streams_[stream].feed(bytes);
  if (ended) pipe.close();
  return !bytes.empty();
}

bool JobOutput::flush() {
  const bool taken = outputs_[0].flush();
  outputs_[1].flush();
  return taken;
}

void JobOutput::say(std::string_view line) { outputs_[1].add_line(line); }

void JobOutput::read_rest() {
  for (std::size_t stream = 0; stream < kStreams; ++stream) {
    while (pipes_[stream] && read_some_of(stream)) flush();
    streams_[stream].finish();
  }
}

void JobOutput::finish() {
  for (RankOutput& output : outputs_) output.finish();
}

}  // namespace rueda
