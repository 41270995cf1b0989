// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/c10d/messages/send_notices.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <exception>
#include <span>
#include <utility>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/log.h"

namespace rueda {
namespace {

// A rank that has asked, the number of changes for a receiver, and the counts of a sender for it.
std::string request_key(int sender) { return fmt::format("rueda-sends-asked/{}", sender); }
std::string changes_key(int receiver) { return fmt::format("rueda-sends-changes/{}", receiver); }
std::string counts_key(int sender, int receiver) {
  return fmt::format("rueda-sends-to/{}/{}", receiver, sender);
}

}  // namespace

void TagCounts::add(int tag) {
  if (messages.size() < kMost || messages.contains(tag)) {
    ++messages[tag];
  } else {
    has_others = true;
  }
}

std::string TagCounts::to_bytes() const {
  Writer writer;
  writer.put(static_cast<std::uint8_t>(has_others));
  writer.put_count(messages.size());
  for (const auto& [tag, count] : messages) {
    writer.put(tag);
    writer.put(count);
  }
  const Bytes bytes = writer.take();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TagCounts TagCounts::from_bytes(const std::string& bytes) {
  Reader reader(std::as_bytes(std::span(bytes)));
  TagCounts counts;
  counts.has_others = reader.get<std::uint8_t>() != 0;
  using Count = std::pair<int, std::uint64_t>;
  for (const auto& [tag, count] :
       reader.get_list<Count>(sizeof(int) + sizeof(std::uint64_t), [](Reader& each) {
         const int tag = each.get<int>();
         return Count{tag, each.get<std::uint64_t>()};
       }))
    counts.messages[tag] = count;
  return reader.complete() && counts.messages.size() <= kMost ? counts : TagCounts{};
}

SendNotices::SendNotices(c10::intrusive_ptr<c10d::Store> store, int rank)
    : store_(std::move(store)), rank_(rank) {}

SendNotices::~SendNotices() {
  end();
  if (thread_.joinable()) thread_.join();
}

void SendNotices::note(int to, int tag) {
  {
    const std::lock_guard lock(mutex_);
    counts_[to].add(tag);
    unpublished_.insert(to);
    if (!thread_.joinable() && !ending_) {
      thread_ = std::thread([this] { run(); });
      pthread_setname_np(thread_.native_handle(), "rueda-notices");
    }
  }
  changed_.notify_all();
}

void SendNotices::end() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
}

bool SendNotices::over_within(Duration longest) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, clock_now() + longest, [this] { return !thread_.joinable() || over_; });
}

// The store may end before this rank, which harms nobody if nobody has asked.
void SendNotices::run() {
  bool asked = false;
  try {
    asked = has_been_asked();
    if (asked) publish();
  } catch (const std::exception& error) {
    log(asked ? LogLevel::warning : LogLevel::info, "rank {} tells other hosts no more of its messages: {}",
        rank_, error.what());
  }
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
}

// Programs that never receive from any source ask the store four times a second.
bool SendNotices::has_been_asked() {
  constexpr std::chrono::milliseconds kFirst{1}, kLast{250};
  std::chrono::milliseconds pause = kFirst;
  while (!store_->check({request_key(rank_)})) {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, pause, [this] { return ending_; })) return false;
    pause = std::min(2 * pause, kLast);
  }
  return true;
}

void SendNotices::publish() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || !unpublished_.empty(); });
    if (ending_) return;
    std::vector<std::pair<int, std::string>> news;
    for (const int to : unpublished_) news.emplace_back(to, counts_[to].to_bytes());
    unpublished_.clear();
    lock.unlock();
    for (const auto& [to, counts] : news) {
      store_->set(counts_key(rank_, to), counts);
      store_->add(changes_key(to), 1);
    }
    lock.lock();
  }
}

HeardSends::HeardSends(c10::intrusive_ptr<c10d::Store> store, int rank)
    : store_(std::move(store)), rank_(rank) {}

const TagCounts& HeardSends::sent(int from) {
  if (!heard_.contains(from)) {
    store_->set(request_key(from), std::string("1"));
    changes_ = -1;  // it may have published for another receiver's sake
  }
  return heard_[from];
}

// A FileStore grows with each add(), so this only reads.
std::int64_t HeardSends::published() {
  std::int64_t changes = 0;
  if (!store_->check({changes_key(rank_)})) return changes;
  const std::string words = store_->get_to_str(changes_key(rank_));
  std::from_chars(words.data(), words.data() + words.size(), changes);
  return changes;
}

void HeardSends::look() {
  if (heard_.empty()) return;
  const std::int64_t changes = published();
  if (changes == changes_) return;
  changes_ = changes;
  for (auto& [from, counts] : heard_) {
    if (store_->check({counts_key(from, rank_)}))
      counts = TagCounts::from_bytes(store_->get_to_str(counts_key(from, rank_)));
  }
}

}  // namespace rueda
