// SPDX-License-Identifier: Apache-2.0
#include "ops/bootstrap/star/star_edge.h"

#include <utility>

namespace rueda {
namespace {

// The last byte of a message.
constexpr std::byte kMessage{0};
constexpr std::byte kFarewell{1};  // nothing comes after it
constexpr std::byte kRefusal{2};   // the rest are words
constexpr std::byte kConfirmed{3};

Bytes with_kind(ConstBytes content, std::byte kind) {
  Bytes bytes(content.begin(), content.end());
  bytes.push_back(kind);
  return bytes;
}

}  // namespace

void StarEdge::send(ConstBytes message) { channel_.send(with_kind(message, kMessage)); }

void StarEdge::confirm() { channel_.send(with_kind({}, kConfirmed)); }

void StarEdge::say_farewell() { channel_.send(with_kind({}, kFarewell)); }

void StarEdge::turn_away(const std::string& words) {
  channel_.send(with_kind(std::as_bytes(std::span(words)), kRefusal));
  channel_.close();
}

std::optional<Bytes> StarEdge::take() {
  std::optional<Bytes> message = channel_.take();
  if (!message) return std::nullopt;
  const std::byte kind = message->empty() ? std::byte{255} : message->back();
  if (!message->empty()) message->pop_back();
  if (kind == kMessage && !parted_) return message;
  if (kind == kConfirmed && !confirmed_) {
    confirmed_ = true;
    return std::nullopt;
  }
  if (kind == kFarewell && !parted_) {
    parted_ = true;
    return std::nullopt;
  }
  if (kind == kRefusal) refusal_.assign(reinterpret_cast<const char*>(message->data()), message->size());
  channel_.close();
  return std::nullopt;
}

}  // namespace rueda
