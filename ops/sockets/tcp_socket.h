// SPDX-License-Identifier: Apache-2.0
// Sockets that never block.
#pragma once

#include <sys/socket.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/system/descriptor.h"
#include "core/base/time.h"
#include "ops/sockets/tcp_address.h"

namespace rueda {

// A socket, or the error (errno) why there is none.
struct OpenedSocket {
  Descriptor socket;
  int error = 0;
};
// The remedy for an error (errno) that says that files are too many; empty for others.
std::string_view remedy_for_open_files(int error);
// At its port; port 0 is any free one.
OpenedSocket listen_at(const TcpAddress& own);
// Begins to connect from that card of ours.
OpenedSocket connect_from(const TcpAddress& own, const TcpAddress& theirs);
// Begins to connect, from the card that the system chooses.
OpenedSocket connect_to(const TcpAddress& theirs);
TcpAddress address_of(const Descriptor& listening, const TcpAddress& own);  // with its port

std::string own_card(const Descriptor& connected);  // "eth0"

// Of one that connects: 0 once it is connected, EINPROGRESS before, else why it never will be.
int connect_error(const Descriptor& socket);

// Replaces BBR for a socket that is not yet connected, or listens; any other congestion control stays. A ring
// is as slow as its slowest connection: BBR lets each fall almost silent for 0.2 s in 10. BBR's window is
// that of the shortest round trip of 10 s, though acknowledgements wait behind their card's data. All sockets
// from above have left BBR.
void leave_bbr(const Descriptor& socket);
std::string congestion_control(const Descriptor& socket);  // "cubic"

// For data: sends at once, keeps little that is not sent yet; ends when the other side does not answer for
// so long.
void prepare_for_data(const Descriptor& socket, Duration deadline);

// Sends a few bytes on a fresh connection; whether they fit.
template <class Block>
bool send_block(const Descriptor& socket, const Block& block) {
  return ::send(socket.number(), &block, sizeof block, MSG_NOSIGNAL) == ssize_t{sizeof block};
}

// Purpose: reads one Block, and nothing that comes behind it. A plain value.
template <class Block>
class BlockReader {
 public:
  enum class Came { all, not_yet, never };

  Came read(const Descriptor& socket) {
    while (count_ < bytes_.size()) {
      const ssize_t came = ::recv(socket.number(), bytes_.data() + count_, bytes_.size() - count_, 0);
      if (came < 0 && errno == EINTR) continue;
      if (came < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Came::not_yet;
      if (came <= 0) return Came::never;
      count_ += static_cast<std::size_t>(came);
    }
    return Came::all;
  }
  Block block() const { return std::bit_cast<Block>(bytes_); }

 private:
  std::array<std::byte, sizeof(Block)> bytes_{};
  std::size_t count_ = 0;
};

}  // namespace rueda
