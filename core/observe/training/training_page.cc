// SPDX-License-Identifier: Apache-2.0
#include "core/observe/training/training_page.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "core/base/operation_traits.h"

namespace rueda {
namespace {

// Null where the bytes are no page of this version.
const TrainingPage* page_in(ConstBytes bytes) {
  if (bytes.size() < sizeof(TrainingPage) ||
      reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(TrainingPage) != 0)
    return nullptr;
  const auto* page = reinterpret_cast<const TrainingPage*>(bytes.data());
  const bool is_page =
      load_word(page->magic) == TrainingPage::kMagic && load_word(page->version) == TrainingPage::kVersion;
  return is_page ? page : nullptr;
}

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

// Without control characters.
std::string text_in(std::span<const std::uint64_t> words) {
  const auto* letters = reinterpret_cast<const char*>(words.data());
  std::string text(letters, strnlen(letters, words.size_bytes()));
  std::ranges::replace_if(
      text, [](unsigned char letter) { return letter < 0x20 || letter == 0x7f; }, '?');
  return text;
}

template <std::size_t kWords>
std::string text_of(const SealedBlock<kWords>& block) {
  const auto words = block.read();
  return words ? text_in(*words) : "";
}

PlanSettings settings_of(const TrainingPage& page) {
  using Page = TrainingPage;
  const auto words = page.settings.read();
  if (!words) return {};
  return {.fusion_threshold = (*words)[Page::setting_fusion],
          .linger = (*words)[Page::setting_linger],
          .chunk_bytes = (*words)[Page::setting_chunk],
          .route_bytes = (*words)[Page::setting_route],
          .is_tuned = (*words)[Page::setting_tuned] != 0,
          .tuner_samples = (*words)[Page::setting_samples],
          .tuner_words = text_of(page.verdict)};
}

// Nothing if a byte names no enumerator.
std::optional<RouteKind> kind_of(const TrainingPage::Route& route) {
  using Page = TrainingPage;
  const auto words = route.kind.read();
  if (!words) return std::nullopt;
  const auto value = [&](int byte) {
    return static_cast<std::uint8_t>((*words)[Page::kind_values] >> (8 * byte));
  };
  const auto operation = operation_from(value(0));
  const auto dtype = data_type_from(value(1));
  const auto sent_as = compression_from(value(2));
  if (!operation || !dtype || !sent_as || value(4) > 63) return std::nullopt;
  const std::span<const std::uint64_t> all(*words);
  return RouteKind{.operation = *operation,
                   .dtype = *dtype,
                   .sent_as = *sent_as,
                   .ends_on_device = value(3) != 0,
                   .size_class = value(4),
                   .backend = text_in(all.subspan(Page::kind_backend, Page::kBackendBytes / 8)),
                   .inside = text_in(all.subspan(Page::kind_inside, Page::kInsideBytes / 8)),
                   .between = text_in(all.subspan(Page::kind_between, Page::kBetweenBytes / 8))};
}

// A Plan may end meanwhile, so that it is in some of the words only.
RouteCount count_of(const TrainingPage::Route& route) {
  constexpr int kLooks = 4;
  RouteCount count;
  for (int i = 0; i < kLooks; ++i) {
    count = {.plans = load_word(route.plans),
             .tensors = load_word(route.tensors),
             .bytes = load_word(route.bytes),
             .nanoseconds = load_word(route.nanoseconds),
             .fastest = load_word(route.fastest),
             .predicted_plans = load_word(route.predicted_plans),
             .predicted = load_word(route.predicted)};
    if (load_word(route.plans) == count.plans) break;
  }
  return count;
}

std::vector<CountedRoute> routes_of(const TrainingPage& page) {
  std::vector<CountedRoute> routes;
  const std::size_t made = std::min<std::uint64_t>(load_word(page.routes_made), TrainingPage::kRoutes);
  for (std::size_t i = 0; i < made; ++i) {
    const TrainingPage::Route& route = page.routes[i];
    std::optional<RouteKind> kind = kind_of(route);
    if (!kind) continue;
    routes.push_back({static_cast<std::uint32_t>(i), std::move(*kind), count_of(route)});
  }
  return routes;
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

std::optional<TrainingMoment> read_training_moment(ConstBytes bytes) {
  const TrainingPage* const page = page_in(bytes);
  if (page == nullptr) return std::nullopt;
  return TrainingMoment{.step = load_word(page->step),
                        .phase = phase_of(load_word(page->phase)),
                        .spans_written = load_word(page->spans_written)};
}

std::optional<TrainingFailure> read_training_failure(ConstBytes bytes) {
  const TrainingPage* const page = page_in(bytes);
  if (page == nullptr) return std::nullopt;
  return TrainingFailure{.words = text_of(page->failure),
                         .at_ns = static_cast<std::int64_t>(load_word(page->failed_at_ns)),
                         .lost_at_ns = static_cast<std::int64_t>(load_word(page->lost_at_ns))};
}

std::optional<TrainingReading> read_training_page(ConstBytes bytes, std::uint64_t spans_from,
                                                  std::span<const std::uint64_t> points_from) {
  const TrainingPage* const there = page_in(bytes);
  if (there == nullptr) return std::nullopt;
  const TrainingPage& page = *there;
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
  if (const auto words = page.generation.read()) {  // after its first spans
    reading.generation = (*words)[TrainingPage::generation_number];
    reading.generation_since_ns = static_cast<std::int64_t>((*words)[TrainingPage::generation_begin]);
  }
  reading.settings = settings_of(page);
  reading.failure = text_of(page.failure);
  reading.failed_at_ns = static_cast<std::int64_t>(load_word(page.failed_at_ns));
  reading.stall = text_of(page.stall);
  reading.plans_uncounted = load_word(page.plans_uncounted);
  reading.routes = routes_of(page);
  const std::size_t curves = std::min<std::uint64_t>(load_word(page.curves_made), TrainingPage::kTags);
  for (std::size_t i = 0; i < curves; ++i) {
    const TrainingPage::Curve& curve = page.curves[i];
    const std::uint64_t logged = load_word(curve.logged);
    reading.curves.push_back(
        {.tag = text_of(curve.tag),
         .logged = logged,
         .points = points_of(curve, i < points_from.size() ? points_from[i] : 0, logged)});
  }
  return reading;
}

}  // namespace rueda
