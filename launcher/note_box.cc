// SPDX-License-Identifier: Apache-2.0
#include "launcher/note_box.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <system_error>

namespace rueda {
namespace {

// The first byte of the path is zero: a name in the abstract namespace.
sockaddr_un name_of(const std::string& address, socklen_t& length) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::size_t count = address.copy(name.sun_path + 1, sizeof name.sun_path - 1);
  length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + count);
  return name;
}

Descriptor open_socket() {
  return Descriptor(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

}  // namespace

NoteBox::NoteBox(const std::string& token) : address_("ruedarun-" + token), socket_(open_socket()) {
  socklen_t length = 0;
  sockaddr_un name = name_of(address_, length);
  if (!socket_ || ::bind(socket_.number(), reinterpret_cast<const sockaddr*>(&name), length) != 0)
    throw std::system_error(errno, std::generic_category(), "cannot open a socket for the agents' notes");
}

std::optional<Note> NoteBox::take() {
  Note note;
  if (::recv(socket_.number(), &note, sizeof note, 0) != sizeof note) return std::nullopt;
  return note;
}

void leave_note(const std::string& address, const Note& note) {
  socklen_t length = 0;
  sockaddr_un name = name_of(address, length);
  Descriptor socket = open_socket();
  ::sendto(socket.number(), &note, sizeof note, 0, reinterpret_cast<const sockaddr*>(&name), length);
}

bool is_box(const std::string& address) {
  socklen_t length = 0;
  sockaddr_un name = name_of(address, length);
  Descriptor socket = open_socket();
  return ::connect(socket.number(), reinterpret_cast<const sockaddr*>(&name), length) == 0;
}

}  // namespace rueda
