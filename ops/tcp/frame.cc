// SPDX-License-Identifier: Apache-2.0
#include "ops/tcp/frame.h"

#include <fmt/format.h>

#include <bit>

namespace rueda {

FrameBytes to_bytes(const Frame& frame) { return std::bit_cast<FrameBytes>(frame); }
Frame frame_from(const FrameBytes& bytes) { return std::bit_cast<Frame>(bytes); }

std::string problem_in(const Frame& frame) {
  if (frame.magic != Frame::kMagic) return fmt::format("begins with {:08x}", frame.magic);
  switch (frame.kind) {
    case FrameKind::grant:
      return frame.length == 0 ? "" : fmt::format("is a grant with {} bytes behind it", frame.length);
    case FrameKind::eager:
      if (frame.length <= Frame::kMostEager) return "";
      return fmt::format("is an eager message of {} bytes; {} are allowed", frame.length, Frame::kMostEager);
    case FrameKind::data:
      if (frame.length <= Frame::kMostData && frame.offset <= frame.total &&
          frame.length <= frame.total - frame.offset && (frame.length > 0 || frame.total == 0))
        return "";
      return fmt::format("has a fragment of {} bytes at {} of a message of {}", frame.length, frame.offset,
                         frame.total);
    case FrameKind::failure:
      if (frame.length <= Frame::kMostText) return "";
      return fmt::format("is a text of {} bytes; {} are allowed", frame.length, Frame::kMostText);
  }
  return fmt::format("is of kind {}", static_cast<std::uint32_t>(frame.kind));
}

}  // namespace rueda
