// SPDX-License-Identifier: Apache-2.0
#include "launcher/dump/recordings_message.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "core/base/number.h"
#include "launcher/system/printable.h"

namespace rueda {
namespace {

constexpr std::uint32_t kMagic = 0x63657275;  // "urec"
constexpr std::size_t kLongest = (std::size_t{4} << 20) - 4096;
constexpr std::size_t kMostRanks = 4096;
constexpr std::size_t kMostRuntimes = 64;
constexpr std::int32_t kMostLeftOut = 1 << 20;
constexpr std::size_t kLongestName = 256;

std::int64_t unix_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Unused slots at the end of a page are zeroes.
std::string_view without_zeroes(ConstBytes page) {
  const std::string_view text(reinterpret_cast<const char*>(page.data()), page.size());
  return text.substr(0, text.find_last_not_of('\0') + 1);
}

std::optional<RecordedRuntime> runtime_of(std::string_view ranks, std::string name, const std::string& page) {
  if (page.size() > sizeof(RecorderPage)) return std::nullopt;
  std::vector<std::uint64_t> words(sizeof(RecorderPage) / sizeof(std::uint64_t));
  std::memcpy(words.data(), page.data(), page.size());
  std::optional<Recording> recording = read_recording(std::as_bytes(std::span(words)));
  std::optional<std::vector<Rank>> list = ranks_of_runs(ranks, kMostRanks);
  if (!recording || !list) return std::nullopt;
  name.resize(std::min(name.size(), kLongestName));
  return RecordedRuntime{printable(std::move(name), ""), std::move(*list), std::move(*recording)};
}

}  // namespace

void RankRecordingsWriter::add(const std::string& ranks, const std::string& name, ConstBytes page) {
  const std::string_view used = without_zeroes(page);
  const std::size_t bytes = ranks.size() + name.size() + used.size() + 16;
  if (bytes_ + bytes > kLongest) {
    ++left_out_;
    return;
  }
  bytes_ += bytes;
  ++count_;
  for (const std::string_view text : {std::string_view(ranks), std::string_view(name), used})
    pages_.put_string(text);
}

std::string RankRecordingsWriter::take() {
  Writer writer;
  writer.put(kMagic);
  writer.put(monotonic_ns_);
  writer.put(unix_ns());
  writer.put(left_out_);
  writer.put(count_);
  const Bytes head = writer.take(), pages = pages_.take();
  std::string text(reinterpret_cast<const char*>(head.data()), head.size());
  return text.append(reinterpret_cast<const char*>(pages.data()), pages.size());
}

std::optional<RankRecording> read_rank_recordings(std::string_view bytes) {
  Reader reader(std::as_bytes(std::span(bytes)));
  if (reader.get<std::uint32_t>() != kMagic) return std::nullopt;
  RankRecording rank;
  rank.monotonic_ns = reader.get<std::int64_t>();
  rank.unix_ns = reader.get<std::int64_t>();
  rank.left_out = std::clamp(reader.get<std::int32_t>(), 0, kMostLeftOut);
  for (std::uint32_t count = reader.get<std::uint32_t>(); count > 0 && reader.ok(); --count) {
    const std::string ranks = reader.get_string();
    std::string name = reader.get_string();
    const std::string page = reader.get_string();
    if (rank.runtimes.size() == kMostRuntimes) {
      rank.left_out = std::min(rank.left_out + 1, kMostLeftOut);
      continue;
    }
    std::optional<RecordedRuntime> runtime = runtime_of(ranks, std::move(name), page);
    if (runtime) rank.runtimes.push_back(std::move(*runtime));
  }
  return reader.complete() ? std::optional(std::move(rank)) : std::nullopt;
}

std::optional<std::vector<Rank>> ranks_of_runs(std::string_view text, std::size_t most) {
  std::vector<Rank> ranks;
  if (text == "-") return ranks;
  while (true) {
    const std::string_view run = text.substr(0, text.find(','));
    const std::size_t dash = std::min(run.find('-'), run.size());
    const auto first = number_from<Rank>(run.substr(0, dash));
    const auto last = dash < run.size() ? number_from<Rank>(run.substr(dash + 1)) : first;
    if (!first || !last || *first < 0 || *last < *first) return std::nullopt;
    if (ranks.size() + static_cast<std::size_t>(*last - *first) >= most) return std::nullopt;
    for (Rank rank = *first; rank <= *last; ++rank) ranks.push_back(rank);
    if (run.size() == text.size()) return ranks;
    text.remove_prefix(run.size() + 1);
  }
}

}  // namespace rueda
