// SPDX-License-Identifier: Apache-2.0
// Compressed text for tests that read it.
#pragma once

#include <zlib.h>

#include <stdexcept>
#include <string>

namespace rueda {

// `text` as a gzip file holds it.
inline std::string gzip_text(const std::string& text) {
  constexpr int kGzip = 16 + MAX_WBITS;  // a gzip header instead of zlib's
  z_stream stream{};
  if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, kGzip, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::runtime_error("deflateInit2 failed");
  std::string packed(deflateBound(&stream, static_cast<uLong>(text.size())), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const int result = deflate(&stream, Z_FINISH);
  packed.resize(packed.size() - stream.avail_out);
  deflateEnd(&stream);
  if (result != Z_STREAM_END) throw std::runtime_error("deflate failed");
  return packed;
}

}  // namespace rueda
