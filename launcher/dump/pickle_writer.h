// SPDX-License-Identifier: Apache-2.0
// Values as Python's pickle reads them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rueda {

// Purpose: writes one value in protocol 2 of pickle, which names no classes: reading it runs no code. Values
// of a dictionary follow their keys. A plain value.
class PickleWriter {
 public:
  PickleWriter();

  void put_none();
  void put(bool value);
  void put(std::int64_t value);
  void put(double value);
  // Bytes that are no UTF-8 become '?'.
  void put(std::string_view text);
  void put(const char* text) { put(std::string_view(text)); }

  void begin_dictionary();
  void end_dictionary();
  void begin_list();
  void end_list();
  void begin_tuple();
  void end_tuple();

  // The whole; the writer is empty then.
  std::string take();

 private:
  std::string bytes_;
};

// `text` with '?' in place of bytes that are no UTF-8.
std::string valid_utf8(std::string_view text);

}  // namespace rueda
