// SPDX-License-Identifier: Apache-2.0
#include "core/observe/training/training_record.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <new>
#include <span>
#include <utility>

#include "core/base/system/fork_guard.h"
#include "core/base/system/sealed_file.h"
#include "core/base/time.h"

namespace rueda {
namespace {

constexpr double kNano = 1e-9;

double wall_clock_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// The first bytes of a text, with whole characters of UTF-8 only, and without a zero.
std::string_view beginning_of(std::string_view text, std::size_t most) {
  text = text.substr(0, text.find('\0'));
  if (text.size() <= most) return text;
  const auto continues = [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; };
  std::size_t end = most;
  while (end > 0 && continues(text[end])) --end;
  return text.substr(0, end);
}

void put_text(std::span<std::uint64_t> words, std::string_view text) {
  std::memcpy(words.data(), text.data(), std::min(text.size(), words.size_bytes()));
}

using KindWords = std::array<std::uint64_t, TrainingPage::kind_words>;

KindWords words_of(const RouteKind& kind) {
  using Page = TrainingPage;
  KindWords words{};
  words[Page::kind_values] =
      static_cast<std::uint64_t>(kind.operation) | static_cast<std::uint64_t>(kind.dtype) << 8 |
      static_cast<std::uint64_t>(kind.sent_as) << 16 | static_cast<std::uint64_t>(kind.ends_on_device) << 24 |
      static_cast<std::uint64_t>(kind.size_class) << 32;
  const std::span<std::uint64_t> all(words);
  put_text(all.subspan(Page::kind_backend, Page::kBackendBytes / 8), kind.backend);
  put_text(all.subspan(Page::kind_inside, Page::kInsideBytes / 8), kind.inside);
  put_text(all.subspan(Page::kind_between, Page::kBetweenBytes / 8), kind.between);
  return words;
}

template <std::size_t kWords>
void store_all(SealedBlock<kWords>& block, const std::array<std::uint64_t, kWords>& words) {
  block.write([&](auto store) {
    for (std::size_t i = 0; i < kWords; ++i) store(i, words[i]);
  });
}

std::uint64_t stride_of(const TrainingPage::Curve& curve) {
  return std::max<std::uint64_t>(load_word(curve.stride), 1);
}

// Whether the curve no longer has this point, or not yet.
bool is_free(const TrainingPage::Point& point, std::uint64_t stride) {
  return load_word(point.finished) == 0 || load_word(point.words[TrainingPage::point_number]) % stride != 0;
}

// Lines of a report are indented.
std::string in_one_line(std::string_view words) {
  std::string line;
  for (const char letter : words) {
    if (letter == ' ' && line.ends_with("; ")) continue;
    if (letter == '\n' && line.ends_with('.')) line.pop_back();
    line += letter == '\n' ? "; " : std::string(1, letter);
  }
  return line;
}

}  // namespace

TrainingRecord& TrainingRecord::of_process() {
  static TrainingRecord& record = *new TrainingRecord;  // threads may mark until the process ends
  return record;
}

TrainingRecord::TrainingRecord() : page_(map()), forks_(forks_since_first_call()), since_ns_(monotonic_ns()) {
  store_word(page_->process_id, static_cast<std::uint64_t>(::getpid()));
  store_word(page_->phase_since_ns, static_cast<std::uint64_t>(since_ns_));
  store_word(page_->version, TrainingPage::kVersion);
  store_word(page_->magic, TrainingPage::kMagic);
}

TrainingRecord::~TrainingRecord() { ::munmap(page_, sizeof(TrainingPage)); }

TrainingPage* TrainingRecord::map() {
  file_ = sealed_file("rueda-training", sizeof(TrainingPage));
  const int access = PROT_READ | PROT_WRITE;
  void* memory = MAP_FAILED;
  if (file_) memory = ::mmap(nullptr, sizeof(TrainingPage), access, MAP_SHARED, file_.number(), 0);
  if (memory == MAP_FAILED) {
    file_.close();
    memory = ::mmap(nullptr, sizeof(TrainingPage), access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return static_cast<TrainingPage*>(memory);
}

bool TrainingRecord::is_of_child() const { return forks_since_first_call() != forks_; }

// With the mutex.
void TrainingRecord::turn_to(Phase phase) {
  const std::int64_t now = monotonic_ns();
  const std::uint64_t number = load_word(page_->spans_written);
  page_->spans[number % TrainingPage::kSpans].write([&](auto store) {
    store(TrainingPage::span_number, number);
    store(TrainingPage::span_phase, static_cast<std::uint64_t>(phase_));
    store(TrainingPage::span_step, step_);
    store(TrainingPage::span_begin, static_cast<std::uint64_t>(since_ns_));
    store(TrainingPage::span_end, static_cast<std::uint64_t>(now));
  });
  store_word(page_->spans_written, number + 1);
  store_word(page_->phase_since_ns, static_cast<std::uint64_t>(now));
  store_word(page_->phase, static_cast<std::uint64_t>(phase));
  if (is_pause(phase_)) {
    pauses_.usual.add(phase_, static_cast<double>(now - since_ns_) * kNano);
    pauses_.ended_ns = now;
  }
  phase_ = phase;
  since_ns_ = now;
}

// With the mutex. Samples that the step before has not marked may not be marked in this one, either.
void TrainingRecord::turn_to_next_step() {
  turn_to(std::exchange(has_marked_samples_, false) ? Phase::other : Phase::forward);
}

Phase TrainingRecord::begin_phase(Phase phase) {
  if (is_of_child()) return phase;
  const std::lock_guard lock(mutex_);
  const Phase before = phase_;
  if (phase == Phase::data && is_pause(before)) return phase;  // samples of an evaluation are part of it
  // Steps may share samples. Then the forward pass is all before the gradients.
  if (phase == Phase::backward && before == Phase::other && step_ > 0) phase_ = Phase::forward;
  if (phase != before) turn_to(phase);
  return before;
}

void TrainingRecord::leave_phase(Phase phase, Phase next) {
  if (is_of_child()) return;
  const std::lock_guard lock(mutex_);
  if (phase_ == phase && phase != next) turn_to(next);
}

void TrainingRecord::leave_data(Phase before) {
  if (is_of_child()) return;
  const std::lock_guard lock(mutex_);
  if (phase_ != Phase::data) return;
  const bool in_loop = before == Phase::other || before == Phase::forward;
  has_marked_samples_ = has_marked_samples_ || in_loop;
  turn_to(in_loop ? Phase::forward : before);
}

// A loop without other marks has a span for each step, too.
void TrainingRecord::end_step() {
  if (is_of_child()) return;
  const std::lock_guard lock(mutex_);
  turn_to_next_step();
  store_word(page_->step, ++step_);
}

void TrainingRecord::end_unmarked_step() {
  if (is_of_child()) return;
  const std::lock_guard lock(mutex_);
  turn_to_next_step();
  if (program_counts_) return;
  counted_unmarked_ = true;
  store_word(page_->step, ++step_);
}

void TrainingRecord::end_step_of_program() {
  if (is_of_child()) return;
  const std::lock_guard lock(mutex_);
  program_counts_ = true;
  if (std::exchange(counted_unmarked_, false)) return;
  turn_to_next_step();
  store_word(page_->step, ++step_);
}

TrainingPage::Curve* TrainingRecord::find_curve(std::string_view tag) {
  const std::uint64_t made = load_word(page_->curves_made);
  for (std::uint64_t i = 0; i < made; ++i) {
    const auto* name = reinterpret_cast<const char*>(page_->curves[i].tag.words.data());
    if (std::string_view(name, strnlen(name, TrainingPage::kTagBytes)) == tag) return &page_->curves[i];
  }
  if (made == TrainingPage::kTags) return nullptr;
  std::array<std::uint64_t, TrainingPage::kTagBytes / 8> words{};
  std::memcpy(words.data(), tag.data(), tag.size());
  TrainingPage::Curve& curve = page_->curves[made];
  store_all(curve.tag, words);
  store_word(curve.stride, 1);
  store_word(page_->curves_made, made + 1);
  return &curve;
}

// A full curve loses every second point, so that half of its slots become free.
TrainingPage::Point& TrainingRecord::free_point(TrainingPage::Curve& curve) {
  std::uint16_t& next = next_points_[static_cast<std::size_t>(&curve - page_->curves.data())];
  while (true) {
    while (next < TrainingPage::kPoints && !is_free(curve.points[next], stride_of(curve))) ++next;
    if (next < TrainingPage::kPoints) return curve.points[next];
    store_word(curve.stride, 2 * stride_of(curve));
    next = 0;
  }
}

void TrainingRecord::log(std::string_view tag, double value, std::int64_t step) {
  if (is_of_child()) return;
  const std::lock_guard lock(mutex_);
  TrainingPage::Curve* const curve = find_curve(beginning_of(tag, TrainingPage::kTagBytes));
  if (curve == nullptr) return;
  const std::uint64_t number = load_word(curve->logged);
  if (number % stride_of(*curve) == 0) {
    free_point(*curve).write([&](auto store) {
      store(TrainingPage::point_number, number);
      store(TrainingPage::point_step, step < 0 ? step_ : static_cast<std::uint64_t>(step));
      store(TrainingPage::point_value, std::bit_cast<std::uint64_t>(value));
      store(TrainingPage::point_seconds, std::bit_cast<std::uint64_t>(wall_clock_seconds()));
    });
  }
  store_word(curve->logged, number + 1);
}

void TrainingRecord::set_run(std::uint64_t total_steps, std::uint64_t samples_per_step,
                             std::int64_t steps_done) {
  if (is_of_child()) return;
  const std::lock_guard lock(mutex_);
  store_word(page_->total_steps, total_steps);
  store_word(page_->samples_per_step, samples_per_step);
  if (steps_done < 0) return;
  step_ = static_cast<std::uint64_t>(steps_done);
  store_word(page_->step, step_);
}

void TrainingRecord::set_clock_offset(std::int64_t nanoseconds) {
  if (is_of_child()) return;
  const std::lock_guard lock(mutex_);
  store_word(page_->clock_offset_ns, static_cast<std::uint64_t>(nanoseconds));
}

// With the mutex. One that is not taken keeps its count.
// Spans before that moment are of the generation before. Without marks there are no phases.
void TrainingRecord::begin_generation(std::uint64_t number, std::uint64_t steps) {
  if (is_of_child()) return;
  const std::lock_guard lock(mutex_);
  turn_to(phase_ == Phase::other ? Phase::other : Phase::forward);
  step_ = std::max(step_, steps);
  store_word(page_->step, step_);
  page_->generation.write([&](auto store) {
    store(TrainingPage::generation_number, number);
    store(TrainingPage::generation_begin, static_cast<std::uint64_t>(since_ns_));
  });
}

TrainingPage::Route* TrainingRecord::find_route(const RouteKind& kind) {
  const KindWords words = words_of(kind);
  const std::uint64_t made = load_word(page_->routes_made);
  for (std::uint64_t i = 0; i < made; ++i)
    if (!routes_taken_[i] && page_->routes[i].kind.words == words) return &page_->routes[i];
  if (made == TrainingPage::kRoutes) return nullptr;
  store_all(page_->routes[made].kind, words);
  store_word(page_->routes_made, made + 1);
  return &page_->routes[made];
}

TrainingPage::Route* TrainingRecord::take_route(const RouteKind& kind) {
  if (is_of_child()) return nullptr;
  const std::lock_guard lock(mutex_);
  TrainingPage::Route* const route = find_route(kind);
  if (route != nullptr) routes_taken_.set(static_cast<std::size_t>(route - page_->routes.data()));
  return route;
}

void TrainingRecord::give_back(const TrainingPage::Route& route) {
  if (is_of_child()) return;
  const std::lock_guard lock(mutex_);
  routes_taken_.reset(static_cast<std::size_t>(&route - page_->routes.data()));
}

void TrainingRecord::count_unrouted() {
  if (is_of_child()) return;
  const std::lock_guard lock(mutex_);
  store_word(page_->plans_uncounted, load_word(page_->plans_uncounted) + 1);
}

void TrainingRecord::note_failure(std::string_view words) {
  if (is_of_child()) return;
  const std::string line = in_one_line(words);
  const std::lock_guard lock(mutex_);
  std::array<std::uint64_t, TrainingPage::kFailureBytes / 8> failure{};
  put_text(failure, beginning_of(line, TrainingPage::kFailureBytes));
  store_word(page_->failed_at_ns, static_cast<std::uint64_t>(monotonic_ns()));
  store_all(page_->failure, failure);
}

void TrainingRecord::note_loss() {
  if (is_of_child()) return;
  const std::lock_guard lock(mutex_);
  store_word(page_->lost_at_ns, static_cast<std::uint64_t>(monotonic_ns()));
}

std::string TrainingRecord::pause_in_words() {
  const std::lock_guard lock(mutex_);
  if (!is_pause(phase_)) return {};
  return fmt::format("{} for {:.1f} s", to_string(phase_),
                     static_cast<double>(monotonic_ns() - since_ns_) * kNano);
}

bool TrainingRecord::is_in_pause() const { return is_pause(static_cast<Phase>(load_word(page_->phase))); }

bool TrainingRecord::pauses(double last_seconds) {
  const std::lock_guard lock(mutex_);
  const auto seconds_since = [now = monotonic_ns()](std::int64_t moment) {
    return static_cast<double>(now - moment) * kNano;
  };
  if (is_pause(phase_)) return seconds_since(since_ns_) < pauses_.usual.limit(phase_);
  return pauses_.ended_ns && seconds_since(*pauses_.ended_ns) < last_seconds;
}

void TrainingRecord::note_stall(std::string_view words) {
  if (is_of_child()) return;
  const std::string line = in_one_line(words);
  const std::lock_guard lock(mutex_);
  std::array<std::uint64_t, TrainingPage::kStallBytes / 8> stall{};
  put_text(stall, beginning_of(line, TrainingPage::kStallBytes));
  store_all(page_->stall, stall);
}

bool TrainingRecord::use_settings(const void* owner, const PlanSettings& settings) {
  if (is_of_child()) return false;
  const std::lock_guard lock(mutex_);
  if (settings_owner_ != nullptr && settings_owner_ != owner) return false;
  settings_owner_ = owner;
  std::array<std::uint64_t, TrainingPage::kVerdictBytes / 8> verdict{};
  put_text(verdict, beginning_of(settings.tuner_words, TrainingPage::kVerdictBytes));
  store_all(page_->verdict, verdict);
  page_->settings.write([&](auto store) {
    store(TrainingPage::setting_fusion, settings.fusion_threshold);
    store(TrainingPage::setting_linger, settings.linger);
    store(TrainingPage::setting_chunk, settings.chunk_bytes);
    store(TrainingPage::setting_route, settings.route_bytes);
    store(TrainingPage::setting_tuned, std::uint64_t{settings.is_tuned});
    store(TrainingPage::setting_samples, settings.tuner_samples);
  });
  return true;
}

void TrainingRecord::give_back_settings(const void* owner) {
  if (is_of_child()) return;
  const std::lock_guard lock(mutex_);
  if (settings_owner_ == owner) settings_owner_ = nullptr;
}

}  // namespace rueda
