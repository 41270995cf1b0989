// SPDX-License-Identifier: Apache-2.0
#include "core/base/system/secure_channel.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

namespace rueda {
namespace {

constexpr std::uint32_t kChannelMagic = 0x43656452;  // "RdeC"
constexpr std::uint32_t kChannelVersion = 1;
constexpr std::size_t kLongestGreeting = 512;
constexpr std::size_t kMostSealBytes = 64;  // more than a sealed message is longer than the plain one
constexpr std::size_t kMostQueued = std::size_t{1} << 30;

constexpr std::string_view kStranger = "the other side does not know the key of this job";
constexpr std::string_view kOtherVersion = "the other side speaks another version, or is no rank";
constexpr std::string_view kDamaged = "a message was changed on its way";

void put_block(Writer& writer, std::span<const std::byte> block) {
  for (const std::byte byte : block) writer.put(byte);
}

template <class Block>
void get_block(Reader& reader, Block& block) {
  for (std::byte& byte : block) byte = std::byte{reader.get<std::uint8_t>()};
}

}  // namespace

SecureChannel::SecureChannel(Side side, Descriptor socket, const AuthenticationKey& key, std::size_t longest)
    : stream_(std::move(socket), kLongestGreeting, kMostQueued),
      side_(side),
      key_(key),
      longest_(longest),
      keys_(random_exchange_keys()) {}

SecureChannel SecureChannel::connect(Descriptor socket, const AuthenticationKey& key, ConstBytes introduction,
                                     std::size_t longest) {
  SecureChannel channel(Side::connecting, std::move(socket), key, longest);
  channel.connecting_ = channel.keys_.open;
  channel.introduction_.assign(introduction.begin(), introduction.end());
  Writer writer;
  writer.put(kChannelMagic);
  writer.put(kChannelVersion);
  put_block(writer, channel.connecting_);
  put_block(writer, introduction);
  channel.stream_.send(writer.take());
  return channel;
}

SecureChannel SecureChannel::accept(Descriptor socket, const AuthenticationKey& key, std::size_t longest) {
  SecureChannel channel(Side::accepting, std::move(socket), key, longest);
  channel.accepting_ = channel.keys_.open;
  return channel;
}

void SecureChannel::progress() {
  stream_.flush();
  stream_.receive();
  while (state_ == State::greeting) {
    const std::optional<Bytes> frame = stream_.take();
    if (!frame) break;
    hear(*frame);
  }
  if (!stream_ && state_ == State::greeting) state_ = State::closed;
}

void SecureChannel::hear(ConstBytes frame) {
  if (side_ == Side::connecting) return hear_challenge(frame);
  if (!answered_) return hear_greeting(frame);
  hear_proof(frame);
}

void SecureChannel::hear_greeting(ConstBytes frame) {
  constexpr std::size_t kFixed = 2 * sizeof(std::uint32_t) + sizeof(PublicKey);
  if (frame.size() < kFixed || frame.size() > kFixed + kLongestIntroduction) return refuse(kOtherVersion);
  Reader reader(frame.first(kFixed));
  const auto magic = reader.get<std::uint32_t>();
  const auto version = reader.get<std::uint32_t>();
  get_block(reader, connecting_);
  if (magic != kChannelMagic || version != kChannelVersion) return refuse(kOtherVersion);
  introduction_.assign(frame.begin() + kFixed, frame.end());
  Writer writer;
  put_block(writer, accepting_);
  put_block(writer, proof_of("accepting"));
  stream_.send(writer.take());
  answered_ = true;
}

void SecureChannel::hear_challenge(ConstBytes frame) {
  Reader reader(frame);
  Proof proof;
  get_block(reader, accepting_);
  get_block(reader, proof);
  if (!reader.complete()) return refuse(kOtherVersion);
  if (!same(proof, proof_of("accepting"))) return refuse(kStranger);
  stream_.send(proof_of("connecting"));
  begin();
}

void SecureChannel::hear_proof(ConstBytes frame) {
  Reader reader(frame);
  Proof proof;
  get_block(reader, proof);
  if (!reader.complete() || !same(proof, proof_of("connecting"))) return refuse(kStranger);
  begin();
}

// Each use has words of its own, so that a proof of one use serves no other.
Proof SecureChannel::proof_of(std::string_view use, ConstBytes secret) const {
  return prove(key_, {std::as_bytes(std::span(use)), connecting_, accepting_, secret, introduction_});
}

void SecureChannel::begin() {
  const auto secret = shared_secret(keys_, side_ == Side::connecting ? accepting_ : connecting_);
  if (!secret) return refuse(kOtherVersion);
  const Proof forth = proof_of("to the accepting side", *secret),
              back = proof_of("to the connecting side", *secret);
  sealer_.emplace(side_ == Side::connecting ? forth : back);
  opener_.emplace(side_ == Side::connecting ? back : forth);
  stream_.allow(longest_ + kMostSealBytes);
  state_ = State::open;
}

void SecureChannel::send(ConstBytes message) {
  if (state_ == State::open) stream_.send(sealer_->seal(message));
}

std::optional<Bytes> SecureChannel::take() {
  if (state_ != State::open) return std::nullopt;
  if (const std::optional<Bytes> frame = stream_.take()) {
    if (std::optional<Bytes> message = opener_->open(*frame)) return message;
    refuse(kDamaged);
  } else if (!stream_) {
    state_ = State::closed;
  }
  return std::nullopt;
}

void SecureChannel::close() {
  stream_.close();
  state_ = State::closed;
}

void SecureChannel::refuse(std::string_view why) {
  refusal_ = why;
  close();
}

}  // namespace rueda
