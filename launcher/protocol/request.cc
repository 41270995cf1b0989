// SPDX-License-Identifier: Apache-2.0
#include "launcher/protocol/request.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "core/base/number.h"
#include "launcher/protocol/bounded_values.h"

namespace rueda::agents {

std::string timeline_request_text(const TimelineRequest& request) {
  return fmt::format("{} {} {}", request.first, request.last, request.path);
}

std::optional<TimelineRequest> timeline_request_from(std::string_view text) {
  TimelineRequest request;
  for (std::uint64_t* number : {&request.first, &request.last}) {
    const std::size_t end = text.find(' ');
    const auto value = number_from<std::uint64_t>(text.substr(0, end));
    if (!value || end == std::string_view::npos) return std::nullopt;
    *number = *value;
    text.remove_prefix(end + 1);
  }
  if (text.empty() || request.first >= request.last) return std::nullopt;
  request.path = text;
  return request;
}

void write(Writer& writer, const Request& message) {
  writer.put(message.number);
  writer.put(message.kind);
  writer.put_string(message.text);
}

void read(Reader& reader, Request& message) {
  message.number = reader.get<std::uint32_t>();
  message.kind = reader.get_enum([](std::uint8_t value) {
    return value <= static_cast<std::uint8_t>(RequestKind::timeline)
               ? std::optional(static_cast<RequestKind>(value))
               : std::nullopt;
  });
  message.text = get_text(reader, kLongestRequest);
}

void write(Writer& writer, const AnswerPart& message) {
  writer.put(message.number);
  writer.put(message.rank);
  writer.put(static_cast<std::uint8_t>(message.is_last));
  writer.put_string(message.bytes);
}

void read(Reader& reader, AnswerPart& message) {
  message.number = reader.get<std::uint32_t>();
  message.rank = get_rank(reader);
  const auto last = reader.get<std::uint8_t>();
  if (last > 1) reader.fail();
  message.is_last = last == 1;
  message.bytes = get_text(reader, kLongestPart);
}

void write(Writer& writer, const Stalled& message) { writer.put(message.rank); }

void read(Reader& reader, Stalled& message) { message.rank = get_rank(reader); }

}  // namespace rueda::agents
