// SPDX-License-Identifier: Apache-2.0
// Mapping a safetensors file into memory.
#include "examples/lib/model/safetensors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "examples/lib/model/safetensors_header.h"

namespace rueda::examples {
namespace {

[[noreturn]] void fail(const char* what, const std::string& file, int error) {
  throw std::runtime_error(
      fmt::format("cannot {} {}: {}", what, file, std::generic_category().message(error)));
}

// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  int get() const { return value_; }

 private:
  int value_;
};

// The file's bytes, read-only; the mapping outlives the descriptor. Empty for an empty file.
std::span<const std::byte> map_file(const std::string& file) {
  const Descriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (descriptor.get() < 0) fail("open", file, errno);
  struct stat status {};
  if (::fstat(descriptor.get(), &status) != 0) fail("read", file, errno);
  if (S_ISDIR(status.st_mode)) fail("read", file, EISDIR);
  if (!S_ISREG(status.st_mode))
    throw std::runtime_error(fmt::format("cannot map {}: a regular file is needed", file));
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return {};
  void* const address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor.get(), 0);
  if (address == MAP_FAILED) fail("map", file, errno);
  return {static_cast<const std::byte*>(address), size};
}

}  // namespace

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  SafetensorsFile file(map_file(path.string()));
  SafetensorsHeader header = parse_safetensors(path.string(), file.mapping_);
  file.entries_ = std::move(header.entries);
  file.metadata_ = std::move(header.metadata);
  return file;
}

SafetensorsFile::SafetensorsFile(SafetensorsFile&& other) noexcept
    : mapping_(std::exchange(other.mapping_, {})),
      entries_(std::exchange(other.entries_, {})),
      metadata_(std::exchange(other.metadata_, {})) {}

SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&& other) noexcept {
  std::swap(mapping_, other.mapping_);  // `other` unmaps what this object had
  entries_.swap(other.entries_);
  metadata_.swap(other.metadata_);
  return *this;
}

SafetensorsFile::~SafetensorsFile() {
  // munmap takes no pointer to const; the memory is not written.
  if (!mapping_.empty()) ::munmap(const_cast<std::byte*>(mapping_.data()), mapping_.size());
}

const SafetensorEntry* SafetensorsFile::find(std::string_view name) const {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const auto& entry) { return entry.name == name; });
  return found == entries_.end() ? nullptr : &*found;
}

}  // namespace rueda::examples
