// SPDX-License-Identifier: Apache-2.0
#include "launcher/system/sealed_memory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

namespace rueda {

std::optional<SealedMemory> SealedMemory::map(const Descriptor& file, std::size_t bytes, Access access) {
  struct stat about {};
  struct statfs system {};
  if (::fstat(file.number(), &about) != 0 || !S_ISREG(about.st_mode) ||
      about.st_size != static_cast<off_t>(bytes))
    return std::nullopt;
  // Huge pages may be missing when they are touched.
  if (::fstatfs(file.number(), &system) != 0 || system.f_type != TMPFS_MAGIC) return std::nullopt;
  const int seals = ::fcntl(file.number(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return std::nullopt;
  const int protection = access == Access::write ? PROT_READ | PROT_WRITE : PROT_READ;
  void* memory = ::mmap(nullptr, bytes, protection, MAP_SHARED, file.number(), 0);
  if (memory == MAP_FAILED) return std::nullopt;
  return SealedMemory(memory, bytes);
}

SealedMemory::~SealedMemory() {
  if (memory_ != nullptr) ::munmap(memory_, bytes_);
}

}  // namespace rueda
