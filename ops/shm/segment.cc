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

Segment::Result Segment::open(const Card& card) {
  auto failed = [](Status status) { return Result{nullptr, std::move(status)}; };
  if (card.size != kSize) {
    return failed(Status::backend_error(fmt::format(
        "The segment of process {} is said to have {} bytes; it must have {}. Are all ranks of one build?",
        card.process_id, card.size, kSize)));
  }
  SharedFile::Result opened = SharedFile::open(card, SharedFile::Pages::all);
  if (!opened.file) return failed(std::move(opened.status));
  auto segment = std::make_shared<Segment>(std::move(opened.file));
  const SegmentContents& contents = segment->contents();
  if (contents.magic != SegmentContents::kMagic || contents.version != SegmentContents::kVersion) {
    return failed(Status::backend_error(
        fmt::format("What process {} shares is no segment of this version. Are all ranks of one build?",
                    card.process_id)));
  }
  return {std::move(segment), {}};
}

}  // namespace rueda
