// SPDX-License-Identifier: Apache-2.0
#include "launcher/protocol/observation.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace rueda::agents {
namespace {

constexpr std::uint32_t kMostMilliseconds = 3'600'000;
constexpr std::int32_t kMostRanks = 1 << 20;
constexpr std::int32_t kMostCores = 1 << 16;
constexpr std::size_t kLongestCard = 64;
constexpr std::size_t kSpanBytes = 25, kPointBytes = 16;

std::string get_name(Reader& reader, std::size_t longest) {
  std::string name = reader.get_string();
  if (name.size() > longest) reader.fail();
  return name;
}

// A number that is finite and not negative.
double get_amount(Reader& reader) {
  const auto amount = reader.get<double>();
  if (!std::isfinite(amount) || amount < 0) reader.fail();
  return amount;
}

std::int32_t get_up_to(Reader& reader, std::int32_t most) {
  const auto number = reader.get<std::int32_t>();
  if (number < 0 || number > most) reader.fail();
  return number;
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

void put_training(Writer& writer, const Observed& message) {
  for (const std::uint64_t number : {message.step, message.total_steps, message.samples_per_step})
    writer.put(number);
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
}

Observed::Curve get_curve(Reader& reader) {
  Observed::Curve curve;
  curve.tag = get_name(reader, TrainingPage::kTagBytes);
  curve.points = reader.get_list<Observed::Point>(kPointBytes, [](Reader& from) {
    const auto step = from.get<std::uint64_t>();
    return Observed::Point{step, from.get<double>()};
  });
  return curve;
}

void get_training(Reader& reader, Observed& message) {
  for (std::uint64_t* number : {&message.step, &message.total_steps, &message.samples_per_step})
    *number = reader.get<std::uint64_t>();
  message.phase = get_phase(reader);
  message.phase_since_ns = reader.get<std::int64_t>();
  message.spans = reader.get_list<Observed::Span>(kSpanBytes, get_span);
  message.curves = reader.get_list<Observed::Curve>(2, get_curve);
  std::size_t points = 0;
  for (const Observed::Curve& curve : message.curves) points += curve.points.size();
  if (message.spans.size() > kMostSpans || points > kMostPoints ||
      message.curves.size() > TrainingPage::kTags)
    reader.fail();
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
  message.rank = get_up_to(reader, kMostRanks - 1);
  message.now_ns = reader.get<std::int64_t>();
  message.clock_offset_ns = reader.get<std::int64_t>();
  message.resident_bytes = reader.get<std::uint64_t>();
  message.cpu_seconds = get_amount(reader);
  message.has_training = get_up_to(reader, 1) == 1;
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
  }
}
void read(Reader& reader, HostLoad& message) {
  message.now_ns = reader.get<std::int64_t>();
  message.cores = get_up_to(reader, kMostCores);
  message.busy = get_amount(reader);
  message.memory_bytes = reader.get<std::uint64_t>();
  message.memory_used = reader.get<std::uint64_t>();
  message.load = get_amount(reader);
  message.cards = reader.get_list<HostLoad::Card>(25, [](Reader& from) {
    HostLoad::Card card;
    card.name = get_name(from, kLongestCard);
    card.sent_bytes = from.get<std::uint64_t>();
    card.received_bytes = from.get<std::uint64_t>();
    card.limit = get_amount(from);
    return card;
  });
  if (message.cards.size() > kMostCards) reader.fail();
}

}  // namespace rueda::agents
