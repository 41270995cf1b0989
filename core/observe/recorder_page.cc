// SPDX-License-Identifier: Apache-2.0
#include "core/observe/recorder_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>

namespace rueda {
namespace {

constexpr std::size_t kShownInFlight = 8;
constexpr std::size_t kShownEnded = 3;

// Text out of words; what is no printable character becomes '?'. Bytes from 0x80 on may be UTF-8 and stay.
std::string text_of(const std::uint64_t* words, std::size_t length) {
  std::string text(length, '\0');
  std::memcpy(text.data(), words, length);
  for (char& letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (byte < 0x20 || byte == 0x7f) letter = '?';
  }
  return text;
}

std::size_t byte_of(std::uint64_t word, int index) {
  return static_cast<std::size_t>((word >> (8 * index)) & 0xff);
}

RecordedOperation operation_of(const std::array<std::uint64_t, RecorderPage::word_count>& words) {
  using Page = RecorderPage;
  const std::uint64_t kind = words[Page::kind];
  RecordedOperation operation;
  operation.ticket = words[Page::ticket];
  operation.state =
      static_cast<RecordedState>(std::min<std::size_t>(byte_of(kind, 0), kRecordedStateCount - 1));
  operation.operation = static_cast<Operation>(std::min<std::size_t>(byte_of(kind, 1), kOperationCount - 1));
  operation.name = text_of(&words[Page::name], std::min(byte_of(kind, 2), Page::kNameBytes));
  operation.dtype = static_cast<DataType>(std::min<std::size_t>(byte_of(kind, 3), kDataTypeCount - 1));
  operation.bytes = words[Page::bytes];
  operation.plan = words[Page::plan];
  operation.process_set = static_cast<ProcessSetId>(words[Page::process_set]);
  operation.root = static_cast<Rank>(words[Page::process_set] >> 32);
  for (std::size_t i = 0; byte_of(kind, 4) <= Page::kDimensions && i < byte_of(kind, 4); ++i)
    operation.shape.push_back(
        static_cast<std::uint32_t>(words[Page::dimensions + i / 2] >> (i % 2 == 0 ? 0 : 32)));
  // Dimensions that have no room.
  const auto elements = static_cast<std::int64_t>(operation.bytes / size_of(operation.dtype));
  if (byte_of(kind, 4) > Page::kDimensions) operation.shape = {elements};
  operation.submitted_ns = static_cast<std::int64_t>(words[Page::submitted]);
  operation.started_ns = static_cast<std::int64_t>(words[Page::started]);
  operation.ended_ns = static_cast<std::int64_t>(words[Page::ended]);
  return operation;
}

std::optional<RecordedSet> set_of(const RecorderPage::Set& block) {
  const auto words = block.read();
  if (!words || (*words)[RecorderPage::set_id] == 0) return std::nullopt;
  RecordedSet set{.id = static_cast<ProcessSetId>((*words)[RecorderPage::set_id]),
                  .count = static_cast<Rank>((*words)[RecorderPage::set_count] & 0x7fffffff),
                  .members = {}};
  for (Rank rank = 0; rank < RecorderPage::kRanksOfSet; ++rank)
    if (((*words)[RecorderPage::set_ranks + static_cast<std::size_t>(rank) / 64] >> (rank % 64) & 1) != 0)
      set.members.push_back(rank);
  if (set.members.size() != static_cast<std::size_t>(set.count)) set.members.clear();
  return set;
}

// The state of an operation in flight, in words.
std::string_view state_in_words(const RecordedOperation& operation) {
  if (operation.state == RecordedState::started) return "moving data";
  return operation.plan != 0 ? "waiting for its turn" : "not yet submitted by every rank";
}

bool in_flight(const RecordedOperation& operation) {
  return operation.state == RecordedState::submitted || operation.state == RecordedState::started;
}

}  // namespace

std::optional<Recording> read_recording(ConstBytes bytes) {
  if (bytes.size() < sizeof(RecorderPage) ||
      reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(RecorderPage) != 0)
    return std::nullopt;
  const auto& page = *reinterpret_cast<const RecorderPage*>(bytes.data());
  if (load_word(page.magic) != RecorderPage::kMagic || load_word(page.version) != RecorderPage::kVersion)
    return std::nullopt;
  Recording recording;
  recording.rank = static_cast<Rank>(load_word(page.rank));
  recording.size = static_cast<Rank>(load_word(page.size) & 0x7fffffff);
  recording.job = load_word(page.job);
  recording.process_id = static_cast<std::int64_t>(load_word(page.process_id));
  recording.ended_in_order = load_word(page.ended_in_order) != 0;
  recording.unrecorded = load_word(page.unrecorded);
  recording.forgotten_plan = load_word(page.forgotten_plan);
  for (const RecorderPage::Set& block : page.sets)
    if (std::optional<RecordedSet> set = set_of(block)) recording.sets.push_back(std::move(*set));
  if (auto activity = page.activity.read()) {
    const auto* text = reinterpret_cast<const char*>(activity->data());
    recording.activity = text_of(activity->data(), strnlen(text, RecorderPage::kActivityBytes));
  }
  for (const RecorderPage::Slot& slot : page.slots) {
    if (auto words = slot.read()) {
      RecordedOperation operation = operation_of(*words);
      (in_flight(operation) ? recording.in_flight : recording.ended).push_back(std::move(operation));
    }
  }
  std::ranges::sort(recording.in_flight, {}, &RecordedOperation::ticket);
  std::ranges::sort(recording.ended, {}, &RecordedOperation::ended_ns);
  return recording;
}

std::vector<std::string> describe(const Recording& recording, std::int64_t now_ns) {
  // Also right for numbers that mean nothing: unsigned arithmetic does not overflow.
  auto seconds = [&](std::int64_t then) {
    return static_cast<double>(static_cast<std::int64_t>(static_cast<std::uint64_t>(now_ns) -
                                                         static_cast<std::uint64_t>(then))) *
           1e-9;
  };
  std::vector<std::string> lines;
  lines.push_back(fmt::format("  the background thread is {}", recording.activity));
  if (recording.in_flight.empty()) lines.emplace_back("  nothing is in flight");
  const std::size_t shown = std::min(kShownInFlight, recording.in_flight.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const RecordedOperation& operation = recording.in_flight[i];
    lines.push_back(fmt::format("  in flight for {:.1f} s: {} '{}', {} ({} bytes)",
                                seconds(operation.submitted_ns), to_string(operation.operation),
                                operation.name, state_in_words(operation), operation.bytes));
  }
  const std::uint64_t more = recording.in_flight.size() - shown + recording.unrecorded;
  if (more != 0) lines.push_back(fmt::format("  and {} more in flight", more));
  if (recording.ended.empty()) lines.emplace_back("  nothing has completed");
  for (std::size_t i = recording.ended.size() - std::min(kShownEnded, recording.ended.size());
       i < recording.ended.size(); ++i) {
    const RecordedOperation& operation = recording.ended[i];
    lines.push_back(fmt::format("  {:.1f} s ago {}: {} '{}'", seconds(operation.ended_ns),
                                operation.state == RecordedState::failed ? "failed" : "completed",
                                to_string(operation.operation), operation.name));
  }
  return lines;
}

std::string summarize(const Recording& recording, std::int64_t now_ns) {
  auto seconds = [&](std::int64_t then) { return 1e-9 * static_cast<double>(now_ns - then); };
  std::string text = "has completed nothing yet";
  if (!recording.ended.empty()) {
    const RecordedOperation& last = recording.ended.back();
    text = fmt::format("last {} {} '{}' {:.1f} s ago",
                       last.state == RecordedState::failed ? "failed" : "completed",
                       to_string(last.operation), last.name, seconds(last.ended_ns));
  }
  if (recording.in_flight.empty()) return text + "; has nothing in flight, the program is elsewhere";
  const RecordedOperation& oldest = recording.in_flight.front();
  const std::string words = oldest.state == RecordedState::started ? recording.activity
                            : oldest.plan != 0                     ? "which waits for its turn"
                                                                   : "which not every rank has submitted";
  return text + fmt::format("; is in {} '{}' for {:.1f} s, {}", to_string(oldest.operation), oldest.name,
                            seconds(oldest.submitted_ns), words);
}

std::vector<std::string> read_recorder_page(ConstBytes page) {
  const std::optional<Recording> recording = read_recording(page);
  if (!recording) return {"  no recording of this version of Rueda"};
  return describe(*recording, monotonic_ns());
}

std::string short_name(std::string_view name, std::size_t most) {
  if (name.size() <= most) return std::string(name);
  const std::size_t front = most / 3, back = most - front - 3;
  return fmt::format("{}...{}", name.substr(0, front), name.substr(name.size() - back));
}

}  // namespace rueda
