// SPDX-License-Identifier: Apache-2.0
#include "core/observe/training/training_record.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <new>

#include "core/base/system/fork_guard.h"
#include "core/base/system/sealed_file.h"
#include "core/observe/recorder_page.h"

namespace rueda {
namespace {

double wall_clock_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// The first bytes of a name, with whole characters of UTF-8 only, and without a zero.
std::string_view beginning_of(std::string_view tag) {
  tag = tag.substr(0, tag.find('\0'));
  if (tag.size() <= TrainingPage::kTagBytes) return tag;
  const auto continues = [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; };
  std::size_t end = TrainingPage::kTagBytes;
  while (end > 0 && continues(tag[end])) --end;
  return tag.substr(0, end);
}

std::uint64_t stride_of(const TrainingPage::Curve& curve) {
  return std::max<std::uint64_t>(load_word(curve.stride), 1);
}

// Whether the curve no longer has this point, or not yet.
bool is_free(const TrainingPage::Point& point, std::uint64_t stride) {
  return load_word(point.finished) == 0 || load_word(point.words[TrainingPage::point_number]) % stride != 0;
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
  phase_ = phase;
  since_ns_ = now;
}

Phase TrainingRecord::begin_phase(Phase phase) {
  if (is_of_child()) return phase;
  const std::lock_guard lock(mutex_);
  const Phase before = phase_;
  if (phase != before) turn_to(phase);
  return before;
}

void TrainingRecord::leave_phase(Phase phase, Phase next) {
  if (is_of_child()) return;
  const std::lock_guard lock(mutex_);
  if (phase_ == phase && phase != next) turn_to(next);
}

// A loop without other marks has a span for each step, too.
void TrainingRecord::end_step() {
  if (is_of_child()) return;
  const std::lock_guard lock(mutex_);
  turn_to(Phase::forward);
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
  curve.tag.write([&](auto store) {
    for (std::size_t i = 0; i < words.size(); ++i) store(i, words[i]);
  });
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
  TrainingPage::Curve* const curve = find_curve(beginning_of(tag));
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

}  // namespace rueda
