// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/c10d/messages/send_counts.h"

#include <fmt/format.h>

#include <cstddef>

#include "core/base/error.h"

namespace rueda {

std::string SendCounts::key(int rank) const { return fmt::format("rueda-sends/{}", rank); }

SendCounts::Row* SendCounts::row(const SharedFile& file, int of) const {
  return reinterpret_cast<Row*>(file.data()) + of;
}

void SendCounts::note(int to, int tag) {
  if (!own_) {
    const std::size_t size = SharedFile::whole_pages(sizeof(Row) * static_cast<std::size_t>(size_));
    SharedFile::Result made = SharedFile::make("counts of messages", size, SharedFile::Pages::all);
    throw_if_error(made.status);
    own_ = std::move(made.file);
    store_->set(key(rank_), to_bytes(own_->handle()));
  }
  for (Count& each : row(*own_, to)->counts) {
    const std::int64_t tag_and_1 = each.tag_and_1.load();
    if (tag_and_1 != 0 && tag_and_1 != std::int64_t{tag} + 1) continue;
    each.messages.fetch_add(1);
    each.tag_and_1.store(std::int64_t{tag} + 1);
    return;
  }
  row(*own_, to)->others.fetch_add(1);
}

std::uint64_t SendCounts::sent(int from, int tag) {
  std::shared_ptr<SharedFile>& file = others_[from];
  if (!file) {
    if (!store_->check({key(from)})) return 0;
    const std::optional<SegmentHandle> handle = segment_handle_from(store_->get_to_str(key(from)));
    SharedFile::Result opened;
    if (handle) opened = SharedFile::open(*handle, SharedFile::Pages::all);
    if (!opened.file)
      refuse(
          fmt::format("recv from any source sees ranks of its own host, and rank {} is elsewhere ({}). Name "
                      "the source",
                      from, opened.status.message));
    file = std::move(opened.file);
  }
  const Row& all = *row(*file, rank_);
  for (const Count& each : all.counts) {
    if (each.tag_and_1.load() == std::int64_t{tag} + 1) return each.messages.load();
  }
  if (all.others.load() > 0)
    refuse(fmt::format(
        "rank {} has sent messages of more than {} tags to this one, so recv from any source does "
        "not see them. Name the source, or use fewer tags",
        from, kTags));
  return 0;
}

}  // namespace rueda
