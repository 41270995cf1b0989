// SPDX-License-Identifier: Apache-2.0
#include "ops/bootstrap/address/torch_store.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "ops/bootstrap/address/root_address.h"
#include "ops/bootstrap/address/start_error.h"

namespace rueda {
namespace {

// The first byte of a request.
enum class Query : std::uint8_t { validate = 0, set = 1, get = 3, check = 5, remove = 8, ping = 13 };

constexpr std::uint32_t kTorchMagic = 0x3C85F7CE;
constexpr std::uint32_t kPing = 0x52756564;
constexpr std::uint8_t kReady = 0;  // the answer to `check`
constexpr std::uint64_t kLongestValue = 64 << 10;
constexpr int kConnectMs = 1000;
constexpr timeval kAnswer{5, 0};
constexpr int kTries = 50;  // of set(), 0.1 s apart

void put_text(Writer& writer, std::string_view text) {
  writer.put(static_cast<std::uint64_t>(text.size()));
  for (const char letter : text) writer.put(letter);
}

// As torch's own clients name it.
void put_key(Writer& writer, const std::string& key) { put_text(writer, "/" + key); }

Descriptor connect_blocking(const TcpAddress& address) {
  const std::optional<SocketAddress> theirs = socket_address(address);
  if (!theirs) return {};
  Descriptor socket(::socket(theirs->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  // This limits connect(), too.
  const timeval timeout{kConnectMs / 1000, 0};
  ::setsockopt(socket.number(), SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
  ::setsockopt(socket.number(), SOL_SOCKET, SO_RCVTIMEO, &kAnswer, sizeof kAnswer);
  if (::connect(socket.number(), theirs->get(), theirs->length) != 0) return {};
  return socket;
}

}  // namespace

std::string TorchStore::in_words() const { return fmt::format("torchrun's store at {}:{}", host_, port_); }

void TorchStore::fail(std::string_view why) {
  cannot_start(
      fmt::format("{} {}. Is MASTER_PORT that of torchrun, or of torch's TCPStore?", in_words(), why));
}

bool TorchStore::connect() {
  if (socket_) return true;
  for (const TcpAddress& address : addresses_of(host_, port_)) {
    socket_ = connect_blocking(address);
    if (!socket_) continue;
    Writer writer;
    writer.put(Query::validate);
    writer.put(kTorchMagic);
    writer.put(Query::ping);
    writer.put(kPing);
    std::array<std::byte, sizeof kPing> answer{};
    if (send(writer.take()) && receive(answer) && std::bit_cast<std::uint32_t>(answer) == kPing) return true;
    socket_.close();
    fail("does not answer as a TCPStore does");
  }
  return false;
}

void TorchStore::set(const std::string& key, const std::string& value) {
  for (int tries = 0; !connect(); ++tries) {
    if (tries == kTries) fail("cannot be reached");
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  Writer writer;
  writer.put(Query::set);
  put_key(writer, key);
  put_text(writer, value);
  if (!send(writer.take())) fail("has closed the connection");
}

std::optional<std::string> TorchStore::get(const std::string& key) {
  if (!connect()) return std::nullopt;
  Writer writer;
  writer.put(Query::check);
  writer.put(std::uint64_t{1});
  put_key(writer, key);
  std::array<std::byte, 1> known{};
  if (!send(writer.take()) || !receive(known)) fail("has closed the connection");
  if (std::to_integer<std::uint8_t>(known[0]) != kReady) return std::nullopt;
  writer.put(Query::get);
  put_key(writer, key);
  std::array<std::byte, sizeof(std::uint64_t)> length{};
  if (!send(writer.take()) || !receive(length)) fail("has closed the connection");
  const auto count = std::bit_cast<std::uint64_t>(length);
  if (count > kLongestValue) fail(fmt::format("gives a value of {} bytes", count));
  std::string value(count, '\0');
  if (!receive(std::as_writable_bytes(std::span(value)))) fail("has closed the connection");
  return value;
}

void TorchStore::remove(const std::string& key) {
  if (!socket_) return;
  Writer writer;
  writer.put(Query::remove);
  put_key(writer, key);
  std::array<std::byte, sizeof(std::int64_t)> removed{};
  static_cast<void>(send(writer.take()) && receive(removed));
}

bool TorchStore::send(const Bytes& request) {
  return ::send(socket_.number(), request.data(), request.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(request.size());
}

bool TorchStore::receive(MutableBytes bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::recv(socket_.number(), bytes.data(), bytes.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

}  // namespace rueda
