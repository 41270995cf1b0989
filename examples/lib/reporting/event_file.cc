// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/reporting/event_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "event.pb.h"

namespace rueda::examples {
namespace {

constexpr std::array<std::uint32_t, 256> make_crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0x82F63B78u : 0u);
    table[byte] = value;
  }
  return table;
}

constexpr std::array<std::uint32_t, 256> kCrcTable = make_crc_table();

// The format stores checksums in this form, so that a checksum of bytes that hold checksums stays useful.
std::uint32_t masked_crc(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xa282ead8u; }

template <class T>
std::string little_endian(T value) {
  std::string bytes(sizeof(T), '\0');
  for (std::size_t i = 0; i < sizeof(T); ++i) bytes[i] = static_cast<char>((value >> (8 * i)) & 0xff);
  return bytes;
}

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

constexpr std::string_view kPrefix = "events.out.tfevents.";

// The seconds in the name of an event file; nothing for other files.
std::optional<std::int64_t> seconds_of(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::int64_t seconds = 0;
  const auto [end, error] = std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), seconds);
  return error == std::errc() ? std::optional(seconds) : std::nullopt;
}

// In the order in which they are read.
std::vector<std::filesystem::path> event_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code failure;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failure)) {
    if (seconds_of(entry.path())) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

// Now, or behind the newest file: of clocks of several hosts one may be late, and a run as short as a second.
std::int64_t seconds_of_new_file(const std::filesystem::path& folder) {
  auto seconds = static_cast<std::int64_t>(seconds_since_1970());
  for (const auto& file : event_files(folder)) seconds = std::max(seconds, *seconds_of(file) + 1);
  return seconds;
}

// The next record of an event file; nothing at its end, and if it is damaged.
std::optional<tensorboard::Event> next_event(std::ifstream& stream) {
  constexpr std::uint64_t kMost = 1 << 20;  // the records of this program are short
  std::uint64_t length = 0;
  std::array<char, 12> head{};
  if (!stream.read(head.data(), head.size())) return std::nullopt;
  for (std::size_t i = 0; i < sizeof(length); ++i)
    length |= std::uint64_t{static_cast<unsigned char>(head[i])} << (8 * i);
  if (length > kMost) return std::nullopt;
  std::string bytes(length + 4, '\0');
  tensorboard::Event event;
  if (!stream.read(bytes.data(), static_cast<std::streamsize>(bytes.size())) ||
      !event.ParseFromArray(bytes.data(), static_cast<int>(length)))
    return std::nullopt;
  return event;
}

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t value = 0xffffffffu;
  for (const char byte : bytes) {
    value = (value >> 8) ^ kCrcTable[(value ^ static_cast<unsigned char>(byte)) & 0xff];
  }
  return ~value;
}

bool shows_scalar(const std::filesystem::path& folder, std::string_view tag, std::int64_t step) {
  bool shown = false;
  for (const auto& file : event_files(folder)) {
    std::ifstream stream(file, std::ios::binary);
    while (const auto event = next_event(stream)) {
      if (event->session_log().status() == tensorboard::SessionLog::START && event->step() <= step)
        shown = false;
      if (event->step() != step) continue;
      for (const auto& value : event->summary().value()) shown = shown || value.tag() == tag;
    }
  }
  return shown;
}

EventFile::EventFile(const std::filesystem::path& folder, std::int64_t first_step) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) {
    throw std::runtime_error(
        fmt::format("cannot create the folder {}: {}", folder.string(), failure.message()));
  }
  path_ = folder / fmt::format("{}{}.{}.{}", kPrefix, seconds_of_new_file(folder), host_name(), getpid());
  stream_.open(path_, std::ios::binary | std::ios::trunc);
  tensorboard::Event event;
  event.set_wall_time(seconds_since_1970());
  event.set_file_version("brain.Event:2");
  write_record(event.SerializeAsString());
  event.set_step(first_step);
  event.mutable_session_log()->set_status(tensorboard::SessionLog::START);
  write_record(event.SerializeAsString());
}

void EventFile::add_scalar(std::string_view tag, double value, std::int64_t step) {
  tensorboard::Event event;
  event.set_wall_time(seconds_since_1970());
  event.set_step(step);
  tensorboard::Summary::Value* scalar = event.mutable_summary()->add_value();
  scalar->set_tag(std::string(tag));
  scalar->set_simple_value(static_cast<float>(value));
  write_record(event.SerializeAsString());
}

// length | masked checksum of the length | bytes | masked checksum of the bytes
void EventFile::write_record(const std::string& bytes) {
  const std::string length = little_endian(static_cast<std::uint64_t>(bytes.size()));
  stream_ << length << little_endian(masked_crc(length)) << bytes << little_endian(masked_crc(bytes))
          << std::flush;
  if (!stream_) {
    throw std::runtime_error(
        fmt::format("cannot write {}: {}", path_.string(), std::generic_category().message(errno)));
  }
}

}  // namespace rueda::examples
