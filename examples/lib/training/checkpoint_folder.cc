// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/checkpoint_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/base/files/json_depth.h"

namespace rueda::examples {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int kDeepest = 16;  // levels of training.json; a right one has 6
constexpr const char* kFactsFile = "training.json";
constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kUnfinished = ".step-";
constexpr std::size_t kPiece = std::size_t{1} << 20;

[[noreturn]] void fail(const fs::path& path, const std::string& what) {
  throw std::runtime_error(fmt::format("{}: {}", path.string(), what));
}

[[noreturn]] void fail(const fs::path& path, const char* action, int error) {
  fail(path, fmt::format("cannot {}: {}", action, std::generic_category().message(error)));
}

[[noreturn]] void damaged(const fs::path& path, const std::string& what) {
  throw DamagedCheckpoint(fmt::format("{}: {}", path.string(), what));
}

std::optional<std::int64_t> step_of(const fs::path& folder) {
  const std::string name = (folder / "").parent_path().filename().string();  // also of "step-7/"
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
  if (error != std::errc() || rest != end) return std::nullopt;
  return step;
}

void flush_to_disk(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail(path, "open", errno);
  const int error = ::fsync(descriptor) == 0 ? 0 : errno;
  ::close(descriptor);
  if (error != 0) fail(path, "write", error);
}

struct FileFacts {
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0;
  friend bool operator==(const FileFacts&, const FileFacts&) = default;
};

// A missing file passes here: opening it fails later.
void check_is_file(const fs::path& path) {
  std::error_code absent;
  if (fs::exists(path, absent) && !fs::is_regular_file(path, absent)) damaged(path, "is not a file");
}

FileFacts facts_of(const fs::path& path) {
  check_is_file(path);
  std::ifstream stream(path, std::ios::binary);
  if (!stream) damaged(path, fmt::format("cannot read: {}", std::generic_category().message(errno)));
  FileFacts facts;
  std::string piece(kPiece, '\0');
  while (stream.read(piece.data(), static_cast<std::streamsize>(kPiece)) || stream.gcount() > 0) {
    const auto count = static_cast<std::size_t>(stream.gcount());
    facts.crc = static_cast<std::uint32_t>(
        crc32_z(facts.crc, reinterpret_cast<const unsigned char*>(piece.data()), count));
    facts.bytes += count;
  }
  if (stream.bad()) damaged(path, fmt::format("cannot read: {}", std::generic_category().message(errno)));
  return facts;
}

std::uint32_t crc_of(const std::string& text) {
  return static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const unsigned char*>(text.data()), text.size()));
}

Json to_json(const CheckpointFacts& facts, const fs::path& folder) {
  Json json = {{"format", kCheckpointFormat}, {"step", facts.step},         {"samples", facts.samples},
               {"ranks", facts.ranks},        {"settings", facts.settings}, {"evaluations", Json::array()},
               {"files", Json::object()}};
  for (const EvaluationPoint& point : facts.evaluations)
    json["evaluations"].push_back({{"step", point.step}, {"metrics", point.metrics}});
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const FileFacts file = facts_of(entry.path());
    flush_to_disk(entry.path());
    json["files"][entry.path().filename().string()] = {{"bytes", file.bytes}, {"crc32", file.crc}};
  }
  return json;
}

void write_facts(const fs::path& path, Json facts) {
  const std::uint32_t crc = crc_of(facts.dump());
  std::ofstream stream(path);
  stream << Json{{"crc32", crc}, {"training", std::move(facts)}}.dump(1) << '\n' << std::flush;
  if (!stream) fail(path, "write", errno);
  stream.close();
  flush_to_disk(path);
}

Json read_facts(const fs::path& path) {
  check_is_file(path);
  std::ifstream stream(path);
  if (!stream) damaged(path, fmt::format("cannot read: {}", std::generic_category().message(errno)));
  Json json;
  try {
    json = Json::parse(stream, at_most_nested<Json>(kDeepest), false);
  } catch (const TooDeep& error) {
    damaged(path, error.what());
  }
  const bool whole = json.is_object() && json.contains("crc32") && json.contains("training") &&
                     json["crc32"] == crc_of(json["training"].dump());
  if (!whole) damaged(path, "is not what was written");
  return json["training"];
}

// JSON has no number that is not finite: null comes back as NaN.
double number_of(const Json& json) {
  return json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
}

CheckpointFacts facts_of(const Json& json) {
  CheckpointFacts facts{.format = json.at("format"),
                        .step = json.at("step"),
                        .samples = json.at("samples"),
                        .ranks = json.at("ranks"),
                        .settings = json.at("settings")};
  for (const Json& point : json.at("evaluations")) {
    EvaluationPoint& evaluation = facts.evaluations.emplace_back();
    evaluation.step = point.at("step");
    for (const Json& metric : point.at("metrics"))
      evaluation.metrics.emplace_back(metric.at(0), number_of(metric.at(1)));
  }
  return facts;
}

void check_files(const fs::path& folder, const Json& files) {
  for (const auto& [name, file] : files.items()) {
    if (name != fs::path(name).filename() || name == "." || name == "..")
      damaged(folder / kFactsFile, fmt::format("names {}, which is no file of this folder", name));
    const FileFacts wanted{file.at("bytes").get<std::uint64_t>(), file.at("crc32").get<std::uint32_t>()};
    const FileFacts found = facts_of(folder / name);
    if (found == wanted) continue;
    damaged(folder / name, found.bytes == wanted.bytes
                               ? "its bytes are not those that were written"
                               : fmt::format("has {} bytes of {}", found.bytes, wanted.bytes));
  }
}

// Puts `folder` in the place of `target`, in one step where there is something already.
void move_to(const fs::path& folder, const fs::path& target) {
  if (::rename(folder.c_str(), target.c_str()) == 0) return;
  if (errno != ENOTEMPTY && errno != EEXIST) fail(target, "write", errno);
  if (::renameat2(AT_FDCWD, folder.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) {
    fs::remove_all(folder);
    return;
  }
  fs::remove_all(target);  // a file system that cannot exchange
  if (::rename(folder.c_str(), target.c_str()) != 0) fail(target, "write", errno);
}

void remove_old(const fs::path& root, std::int64_t keep) {
  const std::vector<fs::path> all = checkpoints_in(root);
  for (std::size_t i = static_cast<std::size_t>(keep); i < all.size(); ++i) {
    // Hidden before it goes piece by piece: a step-N is whole.
    const fs::path hidden = root / ("." + all[i].filename().string() + ".old");
    fs::rename(all[i], hidden);
    fs::remove_all(hidden);
  }
}

}  // namespace

CheckpointWriter::CheckpointWriter(fs::path root, std::int64_t step)
    : root_(std::move(root)),
      target_(root_ / fmt::format("{}{}", kPrefix, step)),
      folder_(root_ / fmt::format("{}{}.new", kUnfinished, step)) {
  make_folder(root_);
  for (const fs::directory_entry& entry : fs::directory_iterator(root_)) {
    if (entry.path().filename().string().starts_with(kUnfinished)) fs::remove_all(entry.path());
  }
  make_folder(folder_);
}

CheckpointWriter::~CheckpointWriter() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

fs::path CheckpointWriter::commit(const CheckpointFacts& facts, std::int64_t keep) {
  write_facts(folder_ / kFactsFile, to_json(facts, folder_));
  flush_to_disk(folder_);
  move_to(folder_, target_);
  flush_to_disk(root_);
  remove_old(root_, keep);
  return target_;
}

std::vector<fs::path> checkpoints_in(const fs::path& root) {
  std::vector<fs::path> found;
  std::error_code failure;
  for (const fs::directory_entry& entry : fs::directory_iterator(root, failure)) {
    if (step_of(entry.path())) found.push_back(entry.path());
  }
  if (failure && failure != std::errc::no_such_file_or_directory && failure != std::errc::not_a_directory)
    fail(root, "read", failure.value());
  std::ranges::sort(found, std::ranges::greater{}, [](const fs::path& path) { return *step_of(path); });
  return found;
}

bool is_checkpoint(const fs::path& folder) {
  std::error_code absent;
  return step_of(folder) || fs::exists(folder / kFactsFile, absent);
}

CheckpointFacts check_checkpoint(const fs::path& folder) {
  const Json json = read_facts(folder / kFactsFile);
  try {
    if (json.at("format") != kCheckpointFormat && json["format"] != kFormatOfArchives) {
      fail(folder / kFactsFile, fmt::format("is of format {}, and this program reads {} and {}",
                                            json["format"].dump(), kFormatOfArchives, kCheckpointFormat));
    }
    check_files(folder, json.at("files"));
    CheckpointFacts facts = facts_of(json);
    if (facts.step < 0 || facts.ranks < 1) damaged(folder / kFactsFile, "has steps or ranks that cannot be");
    return facts;
  } catch (const Json::exception&) {  // the sum is right, but this program did not write the file
    damaged(folder / kFactsFile, "has not what a checkpoint has");
  }
}

}  // namespace rueda::examples
