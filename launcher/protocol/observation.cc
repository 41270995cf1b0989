// SPDX-License-Identifier: Apache-2.0
#include "launcher/protocol/observation.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/base/operation_traits.h"
#include "launcher/protocol/bounded_values.h"

namespace rueda::agents {
namespace {

constexpr std::uint32_t kMostMilliseconds = 3'600'000;
constexpr std::int32_t kMostCores = 1 << 16;
constexpr std::size_t kLongestCard = 64, kLongestGpu = 64, kGpuBytes = 25;
constexpr std::size_t kSpanBytes = 25, kPointBytes = 16, kRouteBytes = 68;
constexpr std::uint8_t kLargestClass = 63;

// A number that is finite and not negative.
double get_amount(Reader& reader) {
  const auto amount = reader.get<double>();
  if (!std::isfinite(amount) || amount < 0) reader.fail();
  return amount;
}

Phase get_phase(Reader& reader) {
  return reader.get_enum([](std::uint8_t value) {
    return value < kPhaseCount ? std::optional(static_cast<Phase>(value)) : std::nullopt;
  });
}

Observed::Span get_span(Reader& reader) {
  Observed::Span span;
  span.phase = get_phase(reader);
  span.step = reader.get<std::uint64_t>();
  span.begin_ns = reader.get<std::int64_t>();
  span.end_ns = reader.get<std::int64_t>();
  return span;
}

void put_settings(Writer& writer, const PlanSettings& settings) {
  for (const std::uint64_t number :
       {settings.fusion_threshold, settings.linger, settings.chunk_bytes, settings.route_bytes,
        std::uint64_t{settings.is_tuned}, settings.tuner_samples})
    writer.put(number);
  writer.put_string(settings.tuner_words);
}

PlanSettings get_settings(Reader& reader) {
  PlanSettings settings;
  for (std::uint64_t* number :
       {&settings.fusion_threshold, &settings.linger, &settings.chunk_bytes, &settings.route_bytes})
    *number = reader.get<std::uint64_t>();
  const auto is_tuned = reader.get<std::uint64_t>();
  if (is_tuned > 1) reader.fail();
  settings.is_tuned = is_tuned == 1;
  settings.tuner_samples = reader.get<std::uint64_t>();
  settings.tuner_words = get_text(reader, TrainingPage::kVerdictBytes);
  return settings;
}

void put_route(Writer& writer, const CountedRoute& route) {
  writer.put(route.number);
  writer.put(route.kind.operation);
  writer.put(route.kind.dtype);
  writer.put(route.kind.sent_as);
  writer.put(std::uint8_t{route.kind.ends_on_device});
  writer.put(route.kind.size_class);
  for (const std::string* text : {&route.kind.backend, &route.kind.inside, &route.kind.between})
    writer.put_string(*text);
  const RouteCount& count = route.count;
  for (const std::uint64_t number : {count.plans, count.tensors, count.bytes, count.nanoseconds,
                                     count.fastest, count.predicted_plans, count.predicted})
    writer.put(number);
}

CountedRoute get_route(Reader& reader) {
  CountedRoute route;
  route.number = reader.get<std::uint32_t>();
  route.kind.operation = reader.get_enum(operation_from);
  route.kind.dtype = reader.get_enum(data_type_from);
  route.kind.sent_as = reader.get_enum(compression_from);
  const auto ends_on_device = reader.get<std::uint8_t>();
  route.kind.ends_on_device = ends_on_device == 1;
  route.kind.size_class = reader.get<std::uint8_t>();
  if (route.number >= TrainingPage::kRoutes || ends_on_device > 1 || route.kind.size_class > kLargestClass)
    reader.fail();
  route.kind.backend = get_text(reader, TrainingPage::kBackendBytes);
  route.kind.inside = get_text(reader, TrainingPage::kInsideBytes);
  route.kind.between = get_text(reader, TrainingPage::kBetweenBytes);
  RouteCount& count = route.count;
  for (std::uint64_t* number : {&count.plans, &count.tensors, &count.bytes, &count.nanoseconds,
                                &count.fastest, &count.predicted_plans, &count.predicted})
    *number = reader.get<std::uint64_t>();
  return route;
}

void put_training(Writer& writer, const Observed& message) {
  for (const std::uint64_t number :
       {message.generation, message.step, message.total_steps, message.samples_per_step})
    writer.put(number);
  writer.put(message.generation_since_ns);
  writer.put(message.phase);
  writer.put(message.phase_since_ns);
  writer.put_count(message.spans.size());
  for (const Observed::Span& span : message.spans) {
    writer.put(span.phase);
    writer.put(span.step);
    writer.put(span.begin_ns);
    writer.put(span.end_ns);
  }
  writer.put_count(message.curves.size());
  for (const Observed::Curve& curve : message.curves) {
    writer.put_string(curve.tag);
    writer.put_count(curve.points.size());
    for (const Observed::Point& point : curve.points) {
      writer.put(point.step);
      writer.put(point.value);
    }
  }
  put_settings(writer, message.settings);
  writer.put_string(message.failure);
  writer.put(message.failed_at_ns);
  writer.put_string(message.stall);
  writer.put(message.plans_uncounted);
  writer.put_count(message.routes.size());
  for (const CountedRoute& route : message.routes) put_route(writer, route);
}

Observed::Curve get_curve(Reader& reader) {
  Observed::Curve curve;
  curve.tag = get_text(reader, TrainingPage::kTagBytes);
  curve.points = reader.get_list<Observed::Point>(kPointBytes, [](Reader& from) {
    const auto step = from.get<std::uint64_t>();
    return Observed::Point{step, from.get<double>()};
  });
  return curve;
}

void get_training(Reader& reader, Observed& message) {
  for (std::uint64_t* number :
       {&message.generation, &message.step, &message.total_steps, &message.samples_per_step})
    *number = reader.get<std::uint64_t>();
  message.generation_since_ns = reader.get<std::int64_t>();
  message.phase = get_phase(reader);
  message.phase_since_ns = reader.get<std::int64_t>();
  message.spans = reader.get_list<Observed::Span>(kSpanBytes, get_span);
  message.curves = reader.get_list<Observed::Curve>(2, get_curve);
  message.settings = get_settings(reader);
  message.failure = get_text(reader, TrainingPage::kFailureBytes);
  message.failed_at_ns = reader.get<std::int64_t>();
  message.stall = get_text(reader, TrainingPage::kStallBytes);
  message.plans_uncounted = reader.get<std::uint64_t>();
  message.routes = reader.get_list<CountedRoute>(kRouteBytes, get_route);
  std::size_t points = 0;
  for (const Observed::Curve& curve : message.curves) points += curve.points.size();
  if (message.spans.size() > kMostSpans || points > kMostPoints ||
      message.curves.size() > TrainingPage::kTags || message.routes.size() > kMostRoutes)
    reader.fail();
}

GpuLoad get_gpu(Reader& reader) {
  GpuLoad gpu;
  gpu.name = get_text(reader, kLongestGpu);
  gpu.busy_percent = reader.get<std::int32_t>();
  gpu.celsius = reader.get<std::int32_t>();
  if (gpu.busy_percent < GpuLoad::kUnknown || gpu.busy_percent > 100 || gpu.celsius < GpuLoad::kUnknown)
    reader.fail();
  gpu.memory_bytes = reader.get<std::uint64_t>();
  gpu.memory_used = reader.get<std::uint64_t>();
  return gpu;
}

}  // namespace

void write(Writer& writer, const Watch& message) { writer.put(message.milliseconds); }
void read(Reader& reader, Watch& message) {
  message.milliseconds = reader.get<std::uint32_t>();
  if (message.milliseconds > kMostMilliseconds) reader.fail();
}

void write(Writer& writer, const Observed& message) {
  writer.put(message.rank);
  writer.put(message.now_ns);
  writer.put(message.clock_offset_ns);
  writer.put(message.resident_bytes);
  writer.put(message.cpu_seconds);
  writer.put(std::int32_t{message.has_training});
  if (message.has_training) put_training(writer, message);
}
void read(Reader& reader, Observed& message) {
  message.rank = get_rank(reader);
  message.now_ns = reader.get<std::int64_t>();
  message.clock_offset_ns = reader.get<std::int64_t>();
  message.resident_bytes = reader.get<std::uint64_t>();
  message.cpu_seconds = get_amount(reader);
  message.has_training = get_number(reader, 0, 1) == 1;
  if (message.has_training) get_training(reader, message);
}

void write(Writer& writer, const HostLoad& message) {
  writer.put(message.now_ns);
  writer.put(message.cores);
  writer.put(message.busy);
  writer.put(message.memory_bytes);
  writer.put(message.memory_used);
  writer.put(message.load);
  writer.put_count(message.cards.size());
  for (const HostLoad::Card& card : message.cards) {
    writer.put_string(card.name);
    writer.put(card.sent_bytes);
    writer.put(card.received_bytes);
    writer.put(card.limit);
    writer.put(card.speed);
  }
  writer.put_count(message.gpus.size());
  for (const GpuLoad& gpu : message.gpus) {
    writer.put_string(gpu.name);
    writer.put(gpu.busy_percent);
    writer.put(gpu.celsius);
    writer.put(gpu.memory_bytes);
    writer.put(gpu.memory_used);
  }
}
void read(Reader& reader, HostLoad& message) {
  message.now_ns = reader.get<std::int64_t>();
  message.cores = get_number(reader, 0, kMostCores);
  message.busy = get_amount(reader);
  message.memory_bytes = reader.get<std::uint64_t>();
  message.memory_used = reader.get<std::uint64_t>();
  message.load = get_amount(reader);
  message.cards = reader.get_list<HostLoad::Card>(25, [](Reader& from) {
    HostLoad::Card card;
    card.name = get_text(from, kLongestCard);
    card.sent_bytes = from.get<std::uint64_t>();
    card.received_bytes = from.get<std::uint64_t>();
    card.limit = get_amount(from);
    card.speed = get_amount(from);
    return card;
  });
  message.gpus = reader.get_list<GpuLoad>(kGpuBytes, get_gpu);
  if (message.cards.size() > kMostCards || message.gpus.size() > GpuWatch::kMostGpus) reader.fail();
}

}  // namespace rueda::agents
