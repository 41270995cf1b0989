// SPDX-License-Identifier: Apache-2.0
// Starts a job, sees it through, and leaves nothing of it behind.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>

#include "launcher/descriptor.h"
#include "launcher/labelled_stream.h"
#include "launcher/mpich_litter.h"
#include "launcher/note_box.h"
#include "launcher/options.h"
#include "launcher/rank_output.h"

namespace rueda {

// Purpose: one job, from the start of mpiexec to the removal of its remains. One loop waits for signals,
// output and notes of agents; it blocks in nothing but writing output. A job ends early when a rank has
// failed (those left get 2 s to say what they see), on Ctrl-C (1 s) and on SIGTERM: its ranks get SIGTERM,
// and SIGKILL 0.7 s later. Owner: the main thread; lives as long as the job.
class Supervisor {
 public:
  Supervisor(const LaunchOptions& options, std::string mpiexec);

  // Returns ruedarun's exit status.
  int run();

 private:
  using Clock = std::chrono::steady_clock;

  void start(Pipe output, Pipe errors);
  void turn();
  void read_signals();
  void on_signal(int signal);
  void reap();
  bool read_output(Descriptor& from, LabelledStream& into);
  void read_notes();
  void fail(const Note& note);
  void act_on_time();
  void finish();
  int exit_status() const;
  int milliseconds_to_next_act() const;

  const LaunchOptions options_;
  const std::string mpiexec_path_;
  const std::string token_;
  MpichLitter litter_;
  NoteBox notes_;
  RankOutput output_;
  RankOutput errors_;
  LabelledStream output_stream_;
  LabelledStream error_stream_;
  std::string mpiexec_said_;  // on its standard output, held back: shown when nobody else tells what happened

  Descriptor signals_;
  Descriptor output_pipe_;
  Descriptor error_pipe_;

  pid_t mpiexec_ = 0;
  std::optional<int> mpiexec_status_;
  int ended_ranks_ = 0;
  std::optional<Note> failure_;  // the first
  int signal_ = 0;               // the first that asked for the end, or 0
  std::optional<Clock::time_point> terminate_at_;
  std::optional<Clock::time_point> kill_at_;
};

}  // namespace rueda
