// SPDX-License-Identifier: Apache-2.0
#include "ops/shm/memory/segment.h"

#include <fmt/format.h>

#include <cstddef>

namespace rueda {
namespace {

constexpr std::size_t kSize = SharedFile::whole_pages(sizeof(SegmentContents));
constexpr std::size_t kWide = offsetof(SegmentContents, wide);  // from here on pages come by demand

}  // namespace

Segment::Result Segment::make() {
  SharedFile::Result made = SharedFile::make("a segment", kSize, SharedFile::Pages::by_demand);
  if (made.file) made.status = made.file->claim("a segment", 0, kWide, SharedFile::Pages::by_demand);
  if (!made.status.ok()) return {nullptr, std::move(made.status)};
  // Not zeroed, which would touch all of it: it is zeroes.
  std::uninitialized_default_construct_n(reinterpret_cast<SegmentContents*>(made.file->data()), 1);
  return {std::make_shared<Segment>(std::move(made.file)), {}};
}

Segment::Result Segment::in(SharedFile::Result opened) {
  if (!opened.file) return {nullptr, std::move(opened.status)};
  const SegmentHandle handle = opened.file->handle();
  const bool fits = handle.size == kSize;
  auto segment = std::make_shared<Segment>(std::move(opened.file));
  if (fits && segment->contents().magic == SegmentContents::kMagic &&
      segment->contents().version == SegmentContents::kVersion) {
    return {std::move(segment), {}};
  }
  return {nullptr,
          Status::backend_error(fmt::format(
              "What process {} shares, {} bytes, is no segment of this version, which has {}. Are all "
              "ranks of one build?",
              handle.process_id, handle.size, kSize))};
}

Segment::Result Segment::open(const SegmentHandle& handle) {
  return in(SharedFile::open(handle, SharedFile::Pages::by_demand));
}

Status Segment::claim_wide_areas() {
  return file_->claim("areas of a segment", kWide, kSize - kWide, SharedFile::Pages::all);
}

}  // namespace rueda
