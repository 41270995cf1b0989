// SPDX-License-Identifier: Apache-2.0
// What ruedarun asks the ranks of a job at the wish of somebody who watches it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/bytes.h"
#include "core/observe/training/timeline_request.h"

namespace rueda::agents {

inline constexpr std::size_t kLongestRequest = 8 << 10;
inline constexpr std::size_t kLongestPart = 8 << 10;  // far below the cost that an agent may send ahead

enum class RequestKind : std::uint8_t {
  stacks,      // of all threads
  recordings,  // the operations that a rank remembers
  timeline,    // of the steps that the text names
};

// ruedarun to agent: a question to each rank of this host.
struct Request {
  std::uint32_t number = 0;
  RequestKind kind = RequestKind::stacks;
  std::string text;
  bool operator==(const Request&) const = default;
};

// Agent to ruedarun: a part of a rank's answer.
struct AnswerPart {
  std::uint32_t number = 0;  // of the request
  std::int32_t rank = 0;
  bool is_last = true;  // the answer is complete
  std::string bytes;
  bool operator==(const AnswerPart&) const = default;
};

// Agent to ruedarun: a rank has found that ranks wait for others in vain.
struct Stalled {
  std::int32_t rank = 0;
  bool operator==(const Stalled&) const = default;
};

// The text of a request for a timeline: "FIRST LAST PATH".
std::string timeline_request_text(const TimelineRequest& request);
// Nothing where `text` is none.
std::optional<TimelineRequest> timeline_request_from(std::string_view text);

void write(Writer& writer, const Request& message);
void read(Reader& reader, Request& message);
void write(Writer& writer, const AnswerPart& message);
void read(Reader& reader, AnswerPart& message);
void write(Writer& writer, const Stalled& message);
void read(Reader& reader, Stalled& message);

}  // namespace rueda::agents
