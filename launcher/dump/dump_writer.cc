// SPDX-License-Identifier: Apache-2.0
#include "launcher/dump/dump_writer.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <optional>
#include <system_error>

#include "launcher/dump/flight_records.h"
#include "launcher/system/descriptor.h"

namespace rueda {
namespace {

constexpr int kMostOfOneSecond = 100;
constexpr const char* kText = "job.txt";

std::string words_of(int error) { return std::generic_category().message(error); }

// "rueda-dump-20260131-235959-4711", and where that is there, "-2" and so on behind it.
std::optional<std::string> make_folder(const std::string& parent, const DumpFacts& facts,
                                       std::string& error) {
  const auto seconds = static_cast<std::time_t>(facts.unix_seconds);
  const std::string name =
      fmt::format("{}/rueda-dump-{:%Y%m%d-%H%M%S}-{}", parent, fmt::gmtime(seconds), facts.process);
  std::error_code failure;
  std::filesystem::create_directories(parent, failure);
  for (int i = 1; i <= kMostOfOneSecond; ++i) {
    std::string folder = i == 1 ? name : fmt::format("{}-{}", name, i);
    if (::mkdir(folder.c_str(), 0777) == 0) return folder;
    if (errno != EEXIST) break;
  }
  error = fmt::format("cannot make the folder {}: {}", name, words_of(errno));
  return std::nullopt;
}

// False where the rest need not be tried.
bool write_file(WrittenDump& dump, const std::string& name, const std::string& text) {
  const std::string path = fmt::format("{}/{}", dump.folder, name);
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  const int opened = errno;
  const std::error_code written =
      file ? write_all(file.number(), text) : std::error_code(opened, std::generic_category());
  if (written) {
    dump.error = fmt::format("cannot write {}: {}", path, written.message());
    return false;
  }
  dump.files.push_back(name);
  return true;
}

}  // namespace

WrittenDump write_dump(const std::string& parent, const DumpFacts& facts,
                       const std::map<int, std::string>& answers) {
  WrittenDump dump;
  std::map<Rank, RankRecording> recordings;
  for (const auto& [rank, bytes] : answers)
    if (std::optional<RankRecording> recording = read_rank_recordings(bytes))
      recordings.emplace(rank, std::move(*recording));
  const std::vector<JobGroup> groups = job_groups(recordings, std::max(facts.ranks.size(), answers.size()));
  dump.summary = dump_summary(facts, groups, recordings);
  const std::optional<std::string> folder = make_folder(parent, facts, dump.error);
  if (!folder) return dump;
  dump.folder = *folder;
  if (!write_file(dump, kText, dump_text(facts, groups, recordings))) return dump;
  for (const auto& [rank, recording] : recordings)
    if (!write_file(dump, fmt::format("rank_{}", rank), flight_record(groups, rank))) break;
  return dump;
}

}  // namespace rueda
