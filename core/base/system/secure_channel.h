// SPDX-License-Identifier: Apache-2.0
// A connection between two processes that both know one key.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "core/base/bytes.h"
#include "core/base/system/authentication.h"
#include "core/base/system/frame_stream.h"
#include "core/base/system/secret_stream.h"

namespace rueda {

// Purpose: both sides prove that they know the key, which never travels; then they exchange messages that
// nobody else can read or change. A connecting side says in the clear who it is (the introduction):
//   connecting   magic, version, public key, introduction
//   accepting    public key, proof over both public keys and the introduction
//   connecting   proof over the same
// The keys of both directions are derived from all of that and from the secret of the public keys, which are
// fresh. So a recorded connection can be neither repeated nor read by one that learns the key later.
// No call blocks. A peer that breaks the rules is refused. Owned by one thread.
class SecureChannel {
 public:
  enum class State { greeting, open, closed };
  static constexpr std::size_t kLongestIntroduction = 256;

  // `longest`: bytes of a message, once the channel is open.
  static SecureChannel connect(Descriptor socket, const AuthenticationKey& key, ConstBytes introduction,
                               std::size_t longest);
  static SecureChannel accept(Descriptor socket, const AuthenticationKey& key, std::size_t longest);

  State state() const { return state_; }
  int descriptor() const { return stream_.descriptor(); }
  bool has_unsent() const { return stream_.has_unsent(); }
  std::size_t unsent() const { return stream_.unsent(); }  // bytes
  // The connecting side has said this of itself; it is proved once the channel is open.
  ConstBytes introduction() const { return introduction_; }
  // Why it was closed, "the other side does not know the key of this job"; empty at the end of the stream.
  std::string_view refusal() const { return refusal_; }

  // Reads and writes as much as is possible now. Messages that have come are taken also after the end.
  void progress();
  // Only while it is open.
  void send(ConstBytes message);
  std::optional<Bytes> take();
  void close();
  // Nothing is sent any more; what the other side has sent can still be read.
  void close_for_sending() { stream_.close_for_sending(); }

 private:
  enum class Side : unsigned char { connecting = 1, accepting = 2 };

  SecureChannel(Side side, Descriptor socket, const AuthenticationKey& key, std::size_t longest);
  void hear(ConstBytes frame);
  void hear_greeting(ConstBytes frame);
  void hear_challenge(ConstBytes frame);
  void hear_proof(ConstBytes frame);
  Proof proof_of(std::string_view use, ConstBytes secret = {}) const;
  void begin();
  void refuse(std::string_view why);

  FrameStream stream_;
  Side side_;
  State state_ = State::greeting;
  AuthenticationKey key_;
  std::size_t longest_;
  ExchangeKeys keys_;       // of this side
  PublicKey connecting_{};  // those of both sides
  PublicKey accepting_{};
  bool answered_ = false;  // the accepting side has sent its proof
  Bytes introduction_;
  std::optional<MessageSealer> sealer_;
  std::optional<MessageOpener> opener_;
  std::string_view refusal_;
};

}  // namespace rueda
