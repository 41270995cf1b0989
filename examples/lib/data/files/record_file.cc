// SPDX-License-Identifier: Apache-2.0
// In the file: a Header, the key, the records and the end of each of them, each part padded to 8 bytes. The
// header is written last, so that a file is whole or none.
#include "examples/lib/data/files/record_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace rueda::examples {
namespace {

constexpr std::array<char, 16> kMagic = {'r', 'u', 'e', 'd', 'a', ' ', 'r', 'e',
                                         'c', 'o', 'r', 'd', 's', ' ', '1', '\n'};
constexpr std::size_t kAlignment = 8;
constexpr std::size_t kBuffer = 1 << 20;

// As the machine has numbers in memory; a file from one of other byte order fails on its checksum.
struct Header {
  std::array<char, 16> magic;
  std::uint64_t key_bytes;
  std::uint64_t words;  // of 4 bytes, in all records together
  std::uint64_t records;
  std::uint32_t record_checksum;
  std::uint32_t index_checksum;  // of the ends and the key
};

constexpr std::uint64_t aligned(std::uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

std::uint32_t crc_of(std::uint32_t before, std::span<const std::byte> bytes) {
  if (bytes.empty()) return before;  // zlib takes no bytes at address 0 for a wish to begin
  return static_cast<std::uint32_t>(
      crc32_z(before, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

std::uint32_t index_checksum(std::span<const std::uint64_t> ends, std::string_view key) {
  return crc_of(crc_of(0, std::as_bytes(ends)), std::as_bytes(std::span(key)));
}

}  // namespace

RecordWriter::RecordWriter(std::filesystem::path path, std::string_view key)
    : path_(std::move(path)),
      file_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600)),
      key_(key) {
  if (file_.number() < 0) fail_on_file("write", path_, errno);
  buffer_.reserve(kBuffer);
  buffer_.resize(sizeof(Header));  // zeros: not a record file yet
  write(std::as_bytes(std::span(key_)));
  buffer_.resize(aligned(buffer_.size()));
}

void RecordWriter::append(std::span<const std::int32_t> record) {
  const auto bytes = std::as_bytes(record);
  checksum_ = crc_of(checksum_, bytes);
  write(bytes);
  ends_.push_back((ends_.empty() ? 0 : ends_.back()) + record.size());
}

void RecordWriter::finish() {
  const std::uint64_t words = ends_.empty() ? 0 : ends_.back();
  const Header header{kMagic, key_.size(), words, ends_.size(), checksum_, index_checksum(ends_, key_)};
  const std::array<std::byte, kAlignment> zeros{};
  write(std::span(zeros).first(aligned(words * sizeof(std::int32_t)) - words * sizeof(std::int32_t)));
  write(std::as_bytes(std::span(ends_)));
  flush();
  if (::pwrite(file_.number(), &header, sizeof header, 0) != sizeof header || ::fsync(file_.number()) != 0)
    fail_on_file("write", path_, errno);
}

void RecordWriter::write(std::span<const std::byte> bytes) {
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  if (buffer_.size() >= kBuffer) flush();
}

void RecordWriter::flush() {
  for (std::span<const std::byte> left = buffer_; !left.empty();) {
    const ssize_t written = ::write(file_.number(), left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_on_file("write", path_, errno);
    left = left.subspan(static_cast<std::size_t>(written));
  }
  buffer_.clear();
}

RecordFile RecordFile::open(const std::filesystem::path& path, std::string_view key) {
  const auto refuse_unless = [&path](bool good, const char* what) {
    if (!good) throw std::runtime_error(fmt::format("{}: {}", path.string(), what));
  };
  RecordFile result;
  result.file_ = MappedFile(path);
  const std::span<const std::byte> bytes = result.file_.bytes();
  Header header{};
  refuse_unless(bytes.size() >= sizeof header, "too short for a file of records");
  std::memcpy(&header, bytes.data(), sizeof header);
  refuse_unless(header.magic == kMagic, "not a finished file of records");

  // Each part at most the file, so that the sums below stay in range.
  const std::uint64_t size = bytes.size();
  refuse_unless(header.key_bytes <= size && header.words <= size / sizeof(std::int32_t) &&
                    header.records <= size / sizeof(std::uint64_t),
                "the header is damaged");
  const std::uint64_t first = aligned(sizeof header + header.key_bytes);
  const std::uint64_t index = first + aligned(header.words * sizeof(std::int32_t));
  refuse_unless(index + header.records * sizeof(std::uint64_t) == size,
                "the file was cut or the header is damaged");
  result.words_ = {reinterpret_cast<const std::int32_t*>(bytes.data() + first), header.words};
  result.ends_ = {reinterpret_cast<const std::uint64_t*>(bytes.data() + index), header.records};

  const std::string_view found_key(reinterpret_cast<const char*>(bytes.data()) + sizeof header,
                                   header.key_bytes);
  refuse_unless(index_checksum(result.ends_, found_key) == header.index_checksum &&
                    std::ranges::is_sorted(result.ends_) &&
                    (header.records == 0 ? 0 : result.ends_.back()) == header.words,
                "the index is damaged");
  refuse_unless(found_key == key, "it was made from another file or with other settings");
  refuse_unless(crc_of(0, std::as_bytes(result.words_)) == header.record_checksum, "the records are damaged");
  result.checksum_ = header.record_checksum;
  return result;
}

}  // namespace rueda::examples
