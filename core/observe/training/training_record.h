// SPDX-License-Identifier: Apache-2.0
// The writer of a process's TrainingPage.
#pragma once

#include <array>
#include <atomic>
#include <bitset>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/system/descriptor.h"
#include "core/observe/training/training_page.h"
#include "core/observe/training/usual_pauses.h"

namespace rueda {

// Purpose: keeps the phases, steps and scalars of this process's training, whatever jobs come and go in it.
// Any thread may call it, under a mutex; a call takes about 0.1 µs and allocates nothing. In a forked child
// it does nothing: the page is the parent's.
class TrainingRecord {
 public:
  // Made at the first call, and never destroyed.
  static TrainingRecord& of_process();

  TrainingRecord();
  ~TrainingRecord();
  TrainingRecord(const TrainingRecord&) = delete;
  TrainingRecord& operator=(const TrainingRecord&) = delete;

  // Ends the phase before, unless it is the same. Returns it. Samples of an evaluation are part of it.
  Phase begin_phase(Phase phase);
  // As begin_phase(next), if `phase` is the present one.
  void leave_phase(Phase phase, Phase next);
  // The samples are there: `data` ends, if it is the present phase, and a training loop begins `forward`.
  void leave_data(Phase before);
  // Counts the step. The next phase is `forward`. In a loop that marks its samples, it is `other` until they
  // are there: the end of the next `data` begins `forward`.
  void end_step();
  // The same where nobody has said that the step is over: it counts unless the program counts its steps.
  void end_unmarked_step();
  // The program counts this step. It counts once if it has been counted unmarked.
  void end_step_of_program();
  // A negative step is the present one.
  void log(std::string_view tag, double value, std::int64_t step);
  // A negative number of `steps_done` leaves the count as it is.
  void set_run(std::uint64_t total_steps, std::uint64_t samples_per_step, std::int64_t steps_done = -1);
  void set_clock_offset(std::int64_t nanoseconds);
  // The ranks of an elastic job have counted `steps` together. A process that has joined goes on from there.
  // A step that the generation before has not ended begins anew.
  void begin_generation(std::uint64_t number, std::uint64_t steps);
  std::uint64_t steps() const { return load_word(page_->step); }  // so many have ended

  // An operation has failed. The page keeps the beginning of the last words.
  void note_failure(std::string_view words);
  // A rank was lost, and operations have failed since.
  void note_loss();
  // Operations wait for some ranks, which these words name. The page keeps their beginning. No words: they
  // wait no more.
  void note_stall(std::string_view words);
  // "checkpoint for 3.3 s"; empty in a phase that is part of a step. Any thread.
  std::string pause_in_words();
  // The process evaluates or saves. Any thread.
  bool is_in_pause() const;
  // The same for no longer than usual; or it has done so in the last seconds.
  bool pauses(double last_seconds);

  // The caller's own until it gives the Route back; then a later caller may go on counting. Null: all are
  // taken.
  TrainingPage::Route* take_route(const RouteKind& kind);
  void give_back(const TrainingPage::Route& route);
  void count_unrouted();
  // Of several owners the first one counts, until it gives the settings back. Returns true for that one.
  bool use_settings(const void* owner, const PlanSettings& settings);
  void give_back_settings(const void* owner);
  // Nobody has them, or has given them back.
  bool has_free_settings() const { return settings_owner_.load(std::memory_order_relaxed) == nullptr; }

  // Of the page's memory, for another process; it can neither shrink nor grow. -1: there was no such memory.
  int descriptor() const { return file_.number(); }
  // For read_training_page(); good as long as the record.
  ConstBytes page() const { return {reinterpret_cast<const std::byte*>(page_), sizeof(TrainingPage)}; }

 private:
  struct Pauses {
    UsualPauses usual;
    std::optional<std::int64_t> ended_ns;  // the last one
  };

  TrainingPage* map();
  bool is_of_child() const;
  void turn_to(Phase phase);
  void turn_to_next_step();
  TrainingPage::Curve* find_curve(std::string_view tag);
  TrainingPage::Point& free_point(TrainingPage::Curve& curve);
  TrainingPage::Route* find_route(const RouteKind& kind);

  std::mutex mutex_;
  Descriptor file_;
  TrainingPage* const page_;
  const int forks_;
  Phase phase_ = Phase::other;
  std::int64_t since_ns_;
  std::uint64_t step_ = 0;
  bool has_marked_samples_ = false;  // so has the present step
  bool program_counts_ = false;
  bool counted_unmarked_ = false;                                 // since the program has counted
  std::array<std::uint16_t, TrainingPage::kTags> next_points_{};  // of each curve: no point before it is free
  std::bitset<TrainingPage::kRoutes> routes_taken_;
  std::atomic<const void*> settings_owner_ = nullptr;
  Pauses pauses_;
};

}  // namespace rueda
