// SPDX-License-Identifier: Apache-2.0
#include "ops/shm/memory/segment_handle.h"

#include "core/base/bytes.h"

namespace rueda {

std::string to_bytes(const SegmentHandle& handle) {
  Writer writer;
  writer.put(handle.process_id);
  writer.put(handle.file);
  writer.put(handle.nonce);
  writer.put(handle.size);
  for (const std::byte byte : handle.secret) writer.put(byte);
  const Bytes bytes = writer.take();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::optional<SegmentHandle> segment_handle_from(const std::string& bytes) {
  Reader reader({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()});
  SegmentHandle handle;
  handle.process_id = reader.get<std::int64_t>();
  handle.file = reader.get<std::int32_t>();
  handle.nonce = reader.get<std::uint64_t>();
  handle.size = reader.get<std::uint64_t>();
  for (std::byte& byte : handle.secret) byte = std::byte{reader.get<std::uint8_t>()};
  if (!reader.complete() || handle.process_id <= 0 || handle.file < 0) return std::nullopt;
  return handle;
}

}  // namespace rueda
