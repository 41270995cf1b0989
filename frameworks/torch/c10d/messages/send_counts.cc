// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/c10d/messages/send_counts.h"

#include <fmt/format.h>

#include <cstddef>
#include <optional>
#include <utility>

#include "core/base/error.h"

namespace rueda {

SendCounts::SendCounts(c10::intrusive_ptr<c10d::Store> store, int rank, int size, bool several_hosts)
    : store_(std::move(store)),
      rank_(rank),
      size_(size),
      notices_(several_hosts ? std::make_unique<SendNotices>(store_, rank) : nullptr),
      heard_(store_, rank) {}

std::string SendCounts::key(int rank) const { return fmt::format("rueda-sends/{}", rank); }

SendCounts::Row* SendCounts::row(const SharedFile& file, int of) const {
  return reinterpret_cast<Row*>(file.data()) + of;
}

void SendCounts::note(int to, int tag) {
  if (notices_) notices_->note(to, tag);
  if (!own_) {
    const std::size_t size = SharedFile::whole_pages(sizeof(Row) * static_cast<std::size_t>(size_));
    SharedFile::Result made = SharedFile::make("counts of messages", size, SharedFile::Pages::all);
    throw_if_error(made.status);
    store_->set(key(rank_), to_bytes(made.file->handle()));
    own_ = std::move(made.file);
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

// Null where it has sent nothing yet, and for ranks of other hosts.
SharedFile* SendCounts::file_of(int from) {
  std::shared_ptr<SharedFile>& file = others_[from];
  if (file || elsewhere_.contains(from) || !store_->check({key(from)})) return file.get();
  const std::optional<SegmentHandle> handle = segment_handle_from(store_->get_to_str(key(from)));
  SharedFile::Result opened;
  if (handle) opened = SharedFile::open(*handle, SharedFile::Pages::all);
  file = std::move(opened.file);
  if (file) return file.get();
  if (!notices_)
    refuse(fmt::format(
        "recv from any source cannot read the counts of rank {} on this host ({}). Name the source", from,
        opened.status.message));
  elsewhere_.insert(from);
  return nullptr;
}

void SendCounts::refuse_tags(int from) {
  refuse(
      fmt::format("rank {} has sent messages of more than {} tags to this one, so recv from any source does "
                  "not see them. "
                  "Name the source, or use fewer tags",
                  from, kTags));
}

std::uint64_t SendCounts::sent(int from, int tag) {
  const SharedFile* const file = file_of(from);
  if (file != nullptr) {
    const Row& all = *row(*file, rank_);
    for (const Count& each : all.counts) {
      if (each.tag_and_1.load() == std::int64_t{tag} + 1) return each.messages.load();
    }
    if (all.others.load() > 0) refuse_tags(from);
  } else if (elsewhere_.contains(from)) {
    const TagCounts& all = heard_.sent(from);
    if (const auto found = all.messages.find(tag); found != all.messages.end()) return found->second;
    if (all.has_others) refuse_tags(from);
  }
  return 0;
}

void SendCounts::end() {
  if (notices_) notices_->end();
}

}  // namespace rueda
