// SPDX-License-Identifier: Apache-2.0
// The handle by which other ranks of the host can map a rank's memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/system/authentication.h"

namespace rueda {

// The location of shared memory: descriptor `file` of process `process_id`. The nonce in its name tells
// whether the right memory was found. The name is public; the secret is for the ranks of the job.
struct SegmentHandle {
  std::int64_t process_id = 0;
  std::int32_t file = 0;
  std::uint64_t nonce = 0;
  std::uint64_t size = 0;
  AuthenticationKey secret{};
  friend bool operator==(const SegmentHandle&, const SegmentHandle&) = default;
};

std::string to_bytes(const SegmentHandle& handle);
// Nothing when the bytes are not exactly one handle that can be.
std::optional<SegmentHandle> segment_handle_from(const std::string& bytes);

}  // namespace rueda
