// SPDX-License-Identifier: Apache-2.0
// The bytes of a rail, encrypted.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstdint>
#include <span>

#include "core/base/bytes.h"
#include "core/base/system/record_cipher.h"

namespace rueda {

// A record: the length of its text (four bytes), the text encrypted, the tag.
constexpr std::size_t kRecordHeader = 4;
constexpr std::size_t kRecordText = 64 << 10;  // bytes at most

// Purpose: stands in for sendmsg() on a socket that does not block. Part of a RailOutput.
class RecordWriter {
 public:
  RecordWriter(Cipher cipher, const Proof& key) : cipher_(cipher, key) {}

  // How many bytes of the parts have left; -1 with errno. After EAGAIN it has to be called again with the
  // same parts: a record of them is on its way.
  ssize_t write(int socket, std::span<const iovec> parts);

 private:
  void seal(std::span<const iovec> parts);

  RecordCipher cipher_;
  Bytes record_;
  std::size_t written_ = 0;  // bytes of record_
  std::size_t text_ = 0;     // bytes in it; 0: all records have left
};

// Purpose: stands in for readv(). Part of a RailInput.
class RecordReader {
 public:
  RecordReader(Cipher cipher, const Proof& key);

  // How many bytes were put into the parts; 0: the connection has ended; -1 with errno: EBADMSG where a
  // record is not the one that the other side sent.
  ssize_t read(int socket, std::span<const iovec> parts);
  // There are bytes here that no socket tells of.
  bool ready() const { return text_ > 0 || record_is_whole(); }

 private:
  bool record_is_whole() const;
  std::uint32_t length() const;
  bool open();

  RecordCipher cipher_;
  Bytes buffer_;
  std::size_t begin_ = 0;  // of what has come and is not yet taken, in the buffer
  std::size_t end_ = 0;
  std::size_t text_ = 0;  // bytes from begin_ on that are decrypted; the tag follows
};

}  // namespace rueda
