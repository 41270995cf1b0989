// SPDX-License-Identifier: Apache-2.0
#include "ops/shm/memory/fd_passing.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace rueda {
namespace {

using Clock = std::chrono::steady_clock;

Descriptor open_socket() {
  return Descriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// In the abstract namespace: a name that begins with a zero.
std::pair<sockaddr_un, socklen_t> address_of(std::uint64_t nonce) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = fmt::format("rueda-{:016x}", nonce);
  std::ranges::copy(name, address.sun_path + 1);
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}

// The process at the other end; its user is -1 if that is unknown.
ucred peer_of(int connection) {
  ucred peer{0, static_cast<uid_t>(-1), 0};
  socklen_t size = sizeof peer;
  getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size);
  return peer;
}

// Returns true for a process of this user. User 65534 does not count, as this number stands for many users.
bool is_ours(const ucred& peer) {
  constexpr uid_t kUnknown = 65534;
  return peer.uid == geteuid() && peer.uid != kUnknown;
}

// That its sender has the handle.
Proof proof_of(const SegmentHandle& handle) {
  return prove(handle.secret, {std::as_bytes(std::span(&handle.nonce, 1))});
}

// The message that carries one descriptor, and its memory.
struct DescriptorNote {
  char byte = 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};

  DescriptorNote() {
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
  }
};

void send_descriptor(int connection, int file) {
  DescriptorNote envelope;
  cmsghdr* control = CMSG_FIRSTHDR(&envelope.header);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(control), &file, sizeof file);
  // The process that asked sees the end of the connection if this fails.
  static_cast<void>(sendmsg(connection, &envelope.header, MSG_NOSIGNAL));
}

int receive_descriptor(int connection) {
  DescriptorNote envelope;
  if (recvmsg(connection, &envelope.header, MSG_CMSG_CLOEXEC) <= 0) return -1;
  const cmsghdr* control = CMSG_FIRSTHDR(&envelope.header);
  if (control == nullptr || control->cmsg_type != SCM_RIGHTS || control->cmsg_len != CMSG_LEN(sizeof(int)))
    return -1;
  int file = -1;
  std::memcpy(&file, CMSG_DATA(control), sizeof file);
  return file;
}

}  // namespace

FdPassing::FdPassing(std::shared_ptr<SharedFile> file) : file_(std::move(file)), socket_(open_socket()) {
  const auto [address, size] = address_of(file_->handle().nonce);
  if (bind(socket_.number(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      listen(socket_.number(), SOMAXCONN) != 0)
    socket_.close();
}

void FdPassing::serve() {
  constexpr int kAtOnce = 64;  // whoever asks without end does not keep the background thread
  const auto answer_all = [this] {
    std::erase_if(asking_, [this](const Descriptor& connection) { return answer(connection.number()); });
  };
  answer_all();  // before others take their place
  for (int asked = 0; socket_.number() >= 0 && asked < kAtOnce; ++asked) {
    Descriptor connection(accept4(socket_.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (connection.number() < 0) break;
    if (!is_ours(peer_of(connection.number()))) continue;
    if (asking_.size() == kAtOnce) asking_.pop_front();
    asking_.push_back(std::move(connection));
  }
  answer_all();
}

// True when nothing more is to come from there.
bool FdPassing::answer(int connection) {
  Proof said;
  const ssize_t length = recv(connection, said.data(), said.size(), MSG_DONTWAIT);
  if (length < 0 && errno == EAGAIN) return false;
  const SegmentHandle& handle = file_->handle();
  if (length == static_cast<ssize_t>(said.size()) && same(said, proof_of(handle)))
    send_descriptor(connection, handle.file);
  return true;
}

FdPassing::Given FdPassing::ask(const SegmentHandle& handle, std::chrono::milliseconds timeout,
                                const std::function<void()>& meanwhile) {
  const auto [address, size] = address_of(handle.nonce);
  const Descriptor connection = open_socket();
  if (connect(connection.number(), reinterpret_cast<const sockaddr*>(&address), size) != 0) return {};
  const ucred peer = peer_of(connection.number());
  if (!is_ours(peer)) return {};
  const Proof proof = proof_of(handle);
  if (send(connection.number(), proof.data(), proof.size(), MSG_NOSIGNAL) < 0) return {};
  pollfd look{connection.number(), POLLIN, 0};
  for (const auto end = Clock::now() + timeout; Clock::now() < end;) {
    meanwhile();
    if (poll(&look, 1, 1) > 0) return {receive_descriptor(connection.number()), peer.pid};
  }
  return {};
}

}  // namespace rueda
