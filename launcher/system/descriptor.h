// SPDX-License-Identifier: Apache-2.0
// Pipes, and reading and writing through descriptors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>

#include "core/base/system/descriptor.h"

namespace rueda {

struct Pipe {
  Descriptor read_end;
  Descriptor write_end;
};

// Both ends are close-on-exec. Throws std::system_error.
Pipe make_pipe();

// Blocks until all is written; the error when that is not possible.
std::error_code write_all(int descriptor, std::string_view text);

// Reads what is there, at most 64 KiB. Empty at the end of the file, on an error, and when nothing is there
// (EAGAIN).
std::string_view read_some(int descriptor);

// A file of /proc or /sys: 1 MiB of it at most. Empty where it cannot be read.
std::string text_of_file(const std::string& path);

void limit_descriptors(std::uint64_t soft);

void set_non_blocking(int descriptor);

// As many as this process may have open. Returns the limit before the first call.
std::uint64_t allow_many_descriptors();

// A copy under a high number, since programs use low ones by number; none where there is no room. Closed at
// exec() until somebody lets it be inherited.
Descriptor high_copy_of(const Descriptor& descriptor);

// "number:device:file": says in an environment which inherited descriptor is meant. Empty when there is none.
std::string identity_of(int descriptor);

bool same_file(int a, int b);

// Opens /dev/null for those of the three standard streams that are closed, so that no other file takes their
// place.
void fill_standard_streams();

}  // namespace rueda
