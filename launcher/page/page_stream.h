// SPDX-License-Identifier: Apache-2.0
// One connection of the page, as httplib reads and writes it.
#pragma once

#include <httplib.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <string>

#include "launcher/page/page_bounds.h"

namespace rueda {

// Purpose: reads and writes a socket with an end to every wait, and to the bytes of a request. Used by the
// thread of its connection; does not own the socket.
class PageStream : public httplib::Stream {
 public:
  PageStream(int socket, const PageBounds& bounds) : socket_(socket), bounds_(bounds) {}

  // Waits for the first byte of the next request, and gives it all its time and bytes. False: none comes.
  bool await_request();

  bool is_readable() const override;
  bool is_writable() const override;
  ssize_t read(char* target, std::size_t size) override;
  ssize_t write(const char* text, std::size_t size) override;

  // Nobody asks for them.
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return socket_; }

 private:
  const int socket_;
  const PageBounds bounds_;
  std::chrono::steady_clock::time_point until_{};  // the request has to be here
  std::size_t taken_ = 0;                          // bytes of it
  std::array<char, 4096> buffer_{};
  std::size_t begin_ = 0, end_ = 0;  // of what has been received, and not read
};

}  // namespace rueda
