// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/show/event_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <stdexcept>
#include <system_error>

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

EventFile::EventFile(const std::filesystem::path& folder) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) {
    throw std::runtime_error(
        fmt::format("cannot create the folder {}: {}", folder.string(), failure.message()));
  }
  const auto seconds = static_cast<std::int64_t>(seconds_since_1970());
  path_ = folder / fmt::format("events.out.tfevents.{}.{}.{}", seconds, host_name(), getpid());
  stream_.open(path_, std::ios::binary | std::ios::trunc);
  tensorboard::Event event;
  event.set_wall_time(seconds_since_1970());
  event.set_file_version("brain.Event:2");
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
