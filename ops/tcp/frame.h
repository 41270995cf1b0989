// SPDX-License-Identifier: Apache-2.0
// The frames of a rail: a header, and behind it so many bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "ops/link/link.h"

namespace rueda {

// A forbidden act of a peer, in words that name both ranks. Ends the link to this peer.
struct LinkFailure {
  std::string words;
};

enum class FrameKind : std::uint32_t {
  grant = 1,  // a receive has been posted: its message may come
  eager,      // a whole short message, which needs no grant
  data,       // a fragment of a message that has its grant
  failure,    // text: why the other side gives up
};

// Grants and eager messages share sequence numbers, in each direction of a link; whichever rail carries them,
// they are handled in this order.
struct Frame {
  static constexpr std::uint32_t kMagic = 0x31656452;  // "Rde1"
  static constexpr std::size_t kMostEager = 8 << 10;   // bytes of a message that needs no grant
  static constexpr std::size_t kMostData = 128 << 10;  // bytes of a fragment
  static constexpr std::size_t kMostText = 1 << 10;

  std::uint32_t magic = kMagic;
  FrameKind kind = FrameKind::grant;
  Tag tag = 0;
  std::uint32_t length = 0;    // of what follows
  std::uint64_t sequence = 0;  // grant, eager: its own; data: of the grant
  std::uint64_t total =
      0;  // grant: bytes there is room for; data: of the message; eager: frames handled here
  std::uint64_t offset = 0;  // data: of the fragment in its message
};
using FrameBytes = std::array<std::byte, 40>;
static_assert(sizeof(Frame) == sizeof(FrameBytes));

FrameBytes to_bytes(const Frame& frame);
Frame frame_from(const FrameBytes& bytes);

// Why no such frame can be, whatever went before: "has a fragment of 7 bytes at 5 of a message of 9"; empty
// if one can.
std::string problem_in(const Frame& frame);

}  // namespace rueda
