// SPDX-License-Identifier: Apache-2.0
#include "core/observe/timeline_merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/base/files/whole_file.h"

namespace rueda {
namespace {

using nlohmann::json;

constexpr std::size_t kLongestLine = 64 << 10;
constexpr std::string_view kEndName = "rueda_timeline_end";

// The next line of a timeline that is a whole JSON object, as text without its comma; false at the end.
bool next_event(std::istream& file, std::string& line) {
  while (true) {
    line.clear();
    std::streambuf& source = *file.rdbuf();
    int letter = source.sbumpc();
    while (letter != std::char_traits<char>::eof() && letter != '\n') {
      if (line.size() <= kLongestLine) line += static_cast<char>(letter);
      letter = source.sbumpc();
    }
    if (line.ends_with(',')) line.pop_back();
    if (line.starts_with('{') && line.size() <= kLongestLine && json::accept(line)) return true;
    if (letter == std::char_traits<char>::eof()) return false;
  }
}

// Throws std::runtime_error.
void write_merged(const std::string& path, const std::map<Rank, std::string>& by_rank) {
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  WholeFile merged(path);
  std::string text = fmt::format(
      "[\n{{\"name\":\"rueda_merged_timeline\",\"ph\":\"M\",\"pid\":0,\"tid\":0,\"args\":{{\"ranks\":{}}}}}",
      by_rank.size());
  for (const auto& [rank, part] : by_rank) {
    std::ifstream file(part, std::ios::binary);
    for (std::string line; next_event(file, line);) {
      text += ",\n" + line;
      if (text.size() > kPiece) merged.write(std::exchange(text, {}));
    }
  }
  merged.write(text + "\n]\n");
  merged.commit(false);
}

}  // namespace

std::optional<TimelineHeader> read_timeline_header(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  char begin[2] = {};
  if (!file.read(begin, 2) || begin[0] != '[' || begin[1] != '\n') return std::nullopt;
  std::string line;
  if (!next_event(file, line)) return std::nullopt;
  const json event = json::parse(line);
  const auto name = event.find("name"), arguments = event.find("args");
  if (name == event.end() || *name != "rueda_timeline" || arguments == event.end() || !arguments->is_object())
    return std::nullopt;
  auto number = [&](const char* key) -> std::optional<std::int64_t> {
    const auto value = arguments->find(key);
    if (value == arguments->end() || !value->is_number_integer()) return std::nullopt;
    return value->get<std::int64_t>();
  };
  const auto epoch = number("start_time_since_epoch_in_micros"), session = number("session"),
             rank = number("rank");
  if (!epoch || !session || !rank || *rank < 0 || *rank > std::numeric_limits<Rank>::max())
    return std::nullopt;
  return TimelineHeader{*epoch, static_cast<std::uint64_t>(*session), static_cast<Rank>(*rank)};
}

bool timeline_ended(const std::string& path) {
  constexpr std::streamoff kTail = 512;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return false;
  const std::streamoff size = file.tellg();
  file.seekg(std::max<std::streamoff>(0, size - kTail));
  std::string tail(std::istreambuf_iterator<char>(file), {});
  return tail.find(kEndName) != std::string::npos && tail.ends_with("\n]\n");
}

Status merge_timelines(const std::string& path, std::span<const std::string> parts) {
  std::map<Rank, std::string> by_rank;
  std::optional<TimelineHeader> first;
  for (const std::string& part : parts) {
    const std::optional<TimelineHeader> header = read_timeline_header(part);
    if (!header)
      return Status::invalid_argument(fmt::format(
          "merging timelines: '{}' is not the timeline of one rank. Give the files that ranks have written.",
          part));
    if (!first) first = header;
    if (!header->same_job(*first))
      return Status::invalid_argument(fmt::format(
          "merging timelines: '{}' and '{}' are not of one job (started at {} us and {} us since 1970). Give "
          "files of one run.",
          parts.front(), part, first->epoch_us, header->epoch_us));
    auto [entry, fresh] = by_rank.emplace(header->rank, part);
    if (!fresh)
      return Status::invalid_argument(fmt::format("merging timelines: '{}' and '{}' are both of rank {}.",
                                                  entry->second, part, header->rank));
  }
  if (by_rank.empty()) return Status::invalid_argument("merging timelines: there is no file to merge.");
  try {
    write_merged(path, by_rank);
    return {};
  } catch (const std::runtime_error& error) {
    return Status::invalid_argument(fmt::format("merging timelines: {}", error.what()));
  }
}

}  // namespace rueda
