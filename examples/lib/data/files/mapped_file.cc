// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/data/files/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <stdexcept>
#include <utility>

#include "core/base/system/descriptor.h"
#include "examples/lib/data/files/file_failure.h"

namespace rueda::examples {

MappedFile::MappedFile(const std::filesystem::path& path) {
  const Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (descriptor.number() < 0) fail_on_file("open", path, errno);
  struct stat status {};
  if (::fstat(descriptor.number(), &status) != 0) fail_on_file("read", path, errno);
  if (S_ISDIR(status.st_mode)) fail_on_file("read", path, EISDIR);
  if (!S_ISREG(status.st_mode))
    throw std::runtime_error("cannot map " + path.string() + ": a regular file is needed");
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return;
  void* const address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor.number(), 0);
  if (address == MAP_FAILED) fail_on_file("map", path, errno);
  bytes_ = {static_cast<const std::byte*>(address), size};
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);  // `other` unmaps the old file of this object
  return *this;
}

MappedFile::~MappedFile() {
  // munmap takes no pointer to const; the memory is not written.
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace rueda::examples
