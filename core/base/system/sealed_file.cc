// SPDX-License-Identifier: Apache-2.0
#include "core/base/system/sealed_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace rueda {

Descriptor sealed_file(const char* name, std::size_t bytes) {
  Descriptor file(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const bool made = file && ::ftruncate(file.number(), static_cast<off_t>(bytes)) == 0 &&
                    ::fcntl(file.number(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
  if (!made) file.close();
  return file;
}

}  // namespace rueda
