// SPDX-License-Identifier: Apache-2.0
#include "core/observe/training/training_page.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace rueda {
namespace {

Phase phase_of(std::uint64_t word) { return word < kPhaseCount ? static_cast<Phase>(word) : Phase::other; }

std::vector<PhaseSpan> spans_of(const TrainingPage& page, std::uint64_t from, std::uint64_t written) {
  using Page = TrainingPage;
  std::vector<PhaseSpan> spans;
  if (from > written) from = 0;  // the cursor of another page
  const std::uint64_t count = std::min<std::uint64_t>(written - from, Page::kSpans);
  spans.reserve(count);
  for (std::uint64_t number = written - count; number != written; ++number) {
    const auto words = page.spans[number % Page::kSpans].read();
    if (!words || (*words)[Page::span_number] != number) continue;  // overwritten since
    spans.push_back({.phase = phase_of((*words)[Page::span_phase]),
                     .step = (*words)[Page::span_step],
                     .begin_ns = static_cast<std::int64_t>((*words)[Page::span_begin]),
                     .end_ns = static_cast<std::int64_t>((*words)[Page::span_end])});
  }
  return spans;
}

std::string tag_of(const TrainingPage::Curve& curve) {
  const auto words = curve.tag.read();
  if (!words) return "";
  const auto* text = reinterpret_cast<const char*>(words->data());
  std::string tag(text, strnlen(text, TrainingPage::kTagBytes));
  std::ranges::replace_if(
      tag, [](unsigned char letter) { return letter < 0x20 || letter == 0x7f; }, '?');
  return tag;
}

std::vector<ScalarPoint> points_of(const TrainingPage::Curve& curve, std::uint64_t from,
                                   std::uint64_t logged) {
  using Page = TrainingPage;
  if (from > logged) from = 0;
  std::vector<ScalarPoint> points;
  if (from == logged) return points;
  const std::uint64_t stride = std::max<std::uint64_t>(load_word(curve.stride), 1);
  for (const Page::Point& slot : curve.points) {
    const auto words = slot.read();
    if (!words) continue;
    const std::uint64_t number = (*words)[Page::point_number];
    if (number < from || number >= logged || number % stride != 0) continue;
    points.push_back({.number = number,
                      .step = (*words)[Page::point_step],
                      .value = std::bit_cast<double>((*words)[Page::point_value]),
                      .seconds = std::bit_cast<double>((*words)[Page::point_seconds])});
  }
  std::ranges::sort(points, {}, &ScalarPoint::number);
  return points;
}

}  // namespace

std::string_view to_string(Phase phase) {
  switch (phase) {
    case Phase::other: return "other";
    case Phase::data: return "data";
    case Phase::forward: return "forward";
    case Phase::backward: return "backward";
    case Phase::wait: return "wait";
    case Phase::step: return "step";
    case Phase::evaluation: return "evaluation";
    case Phase::checkpoint: return "checkpoint";
    case Phase::garbage: return "garbage";
  }
  return "";
}

std::optional<TrainingReading> read_training_page(ConstBytes bytes, std::uint64_t spans_from,
                                                  std::span<const std::uint64_t> points_from) {
  if (bytes.size() < sizeof(TrainingPage) ||
      reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(TrainingPage) != 0)
    return std::nullopt;
  const auto& page = *reinterpret_cast<const TrainingPage*>(bytes.data());
  if (load_word(page.magic) != TrainingPage::kMagic || load_word(page.version) != TrainingPage::kVersion)
    return std::nullopt;
  TrainingReading reading;
  reading.process_id = static_cast<std::int64_t>(load_word(page.process_id));
  reading.step = load_word(page.step);
  reading.total_steps = load_word(page.total_steps);
  reading.samples_per_step = load_word(page.samples_per_step);
  reading.phase = phase_of(load_word(page.phase));
  reading.phase_since_ns = static_cast<std::int64_t>(load_word(page.phase_since_ns));
  reading.clock_offset_ns = static_cast<std::int64_t>(load_word(page.clock_offset_ns));
  reading.spans_written = load_word(page.spans_written);
  reading.spans = spans_of(page, spans_from, reading.spans_written);
  const std::size_t curves = std::min<std::uint64_t>(load_word(page.curves_made), TrainingPage::kTags);
  for (std::size_t i = 0; i < curves; ++i) {
    const TrainingPage::Curve& curve = page.curves[i];
    const std::uint64_t logged = load_word(curve.logged);
    reading.curves.push_back(
        {.tag = tag_of(curve),
         .logged = logged,
         .points = points_of(curve, i < points_from.size() ? points_from[i] : 0, logged)});
  }
  return reading;
}

}  // namespace rueda
