// SPDX-License-Identifier: Apache-2.0
// Writes to terminals, pipes and files that may take their time.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <system_error>

#include "launcher/system/descriptor.h"

namespace rueda {

// Becomes readable when a writer has written something, or could not.
using WriterNews = std::shared_ptr<const Descriptor>;
WriterNews make_writer_news();  // throws std::system_error
void clear(const WriterNews& news);

// Purpose: takes text at once, and writes it on a thread of its own: a reader that pauses keeps nobody else
// waiting. Descriptors stay blocking, since other programs may share them. Owned by the main thread of the
// supervisor. The thread ends with this object, or with the process where a write does not return.
class OutputWriter {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::size_t kMuch = 8 << 20;  // bytes that wait: ranks have to pause then

  explicit OutputWriter(WriterNews news);
  ~OutputWriter();
  OutputWriter(const OutputWriter&) = delete;
  OutputWriter& operator=(const OutputWriter&) = delete;

  // The descriptor stays open as long as this object lives.
  void add(int descriptor, std::string text);
  std::size_t held() const;  // bytes that are not written yet
  // Much is held, and nothing has been written for so long.
  bool stuck(Time now, std::chrono::milliseconds timeout) const;
  std::error_code error() const;  // of the first write that failed; later text for that descriptor is dropped

 private:
  struct State;
  static void write(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_;
};

}  // namespace rueda
