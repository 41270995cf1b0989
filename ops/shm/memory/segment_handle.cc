// SPDX-License-Identifier: Apache-2.0
#include "ops/shm/memory/segment_handle.h"

#include "core/base/bytes.h"

namespace rueda {

std::string to_bytes(const Card& card) {
  Writer writer;
  writer.put(card.process_id);
  writer.put(card.file);
  writer.put(card.nonce);
  writer.put(card.size);
  for (const std::byte byte : card.secret) writer.put(byte);
  const Bytes bytes = writer.take();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::optional<Card> card_from(const std::string& bytes) {
  Reader reader({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()});
  Card card;
  card.process_id = reader.get<std::int64_t>();
  card.file = reader.get<std::int32_t>();
  card.nonce = reader.get<std::uint64_t>();
  card.size = reader.get<std::uint64_t>();
  for (std::byte& byte : card.secret) byte = std::byte{reader.get<std::uint8_t>()};
  if (!reader.complete() || card.process_id <= 0 || card.file < 0) return std::nullopt;
  return card;
}

}  // namespace rueda
