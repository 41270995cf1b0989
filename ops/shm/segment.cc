// SPDX-License-Identifier: Apache-2.0
#include "ops/shm/segment.h"

#include <fmt/format.h>

namespace rueda {
namespace {

constexpr std::size_t kSize = SharedFile::whole_pages(sizeof(SegmentContents));

}  // namespace

Segment::Result Segment::make() {
  SharedFile::Result made = SharedFile::make("a segment", kSize, SharedFile::Pages::all);
  if (!made.file) return {nullptr, std::move(made.status)};
  std::construct_at(reinterpret_cast<SegmentContents*>(made.file->data()));
  return {std::make_shared<Segment>(std::move(made.file)), {}};
}

Segment::Result Segment::in(SharedFile::Result opened) {
  if (!opened.file) return {nullptr, std::move(opened.status)};
  const Card card = opened.file->card();
  const bool fits = card.size == kSize;
  auto segment = std::make_shared<Segment>(std::move(opened.file));
  if (fits && segment->contents().magic == SegmentContents::kMagic &&
      segment->contents().version == SegmentContents::kVersion)
    return {std::move(segment), {}};
  return {nullptr,
          Status::backend_error(fmt::format(
              "What process {} shares, {} bytes, is no segment of this version, which has {}. Are all "
              "ranks of one build?",
              card.process_id, card.size, kSize))};
}

Segment::Result Segment::open(const Card& card) { return in(SharedFile::open(card, SharedFile::Pages::all)); }

}  // namespace rueda
