// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/output_writer.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

namespace rueda {
namespace {

// Small, so that a slow reader is seen to move.
constexpr std::size_t kWrittenAtOnce = 4 << 10;

struct Waiting {
  int descriptor = -1;
  std::string text;
};

}  // namespace

WriterNews make_writer_news() {
  Descriptor news(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!news) throw std::system_error(errno, std::generic_category(), "cannot make an eventfd");
  return std::make_shared<const Descriptor>(std::move(news));
}

void clear(const WriterNews& news) {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t read = ::read(news->number(), &count, sizeof count);
}

// Shared with the thread.
struct OutputWriter::State {
  WriterNews news;
  std::mutex mutex;
  std::condition_variable more;
  std::deque<Waiting> waiting;
  std::size_t held = 0;  // of `waiting`, and of the text that is being written
  Time moved = std::chrono::steady_clock::now();
  std::set<int> failed;  // descriptors
  std::error_code error;
  bool started = false;
  bool unwanted = false;

  // With the lock.
  void note_written(int descriptor, std::size_t bytes, std::error_code why) {
    held -= bytes;
    moved = std::chrono::steady_clock::now();
    if (why && !error) error = why;
    if (why) failed.insert(descriptor);
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t told = ::write(news->number(), &one, sizeof one);
  }
};

OutputWriter::OutputWriter(WriterNews news) : state_(std::make_shared<State>()) {
  state_->news = std::move(news);
}

OutputWriter::~OutputWriter() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->unwanted = true;
  }
  state_->more.notify_all();
}

void OutputWriter::add(int descriptor, std::string text) {
  if (text.empty()) return;
  const std::lock_guard lock(state_->mutex);
  if (state_->failed.contains(descriptor)) return;
  if (state_->held == 0) state_->moved = std::chrono::steady_clock::now();
  state_->held += text.size();
  if (!state_->waiting.empty() && state_->waiting.back().descriptor == descriptor) {
    state_->waiting.back().text += text;
  } else {
    state_->waiting.push_back({descriptor, std::move(text)});
  }
  if (!std::exchange(state_->started, true))
    std::thread([state = state_] { write(state); }).detach();  // it may wait in a write for ever
  state_->more.notify_one();
}

std::size_t OutputWriter::held() const {
  const std::lock_guard lock(state_->mutex);
  return state_->held;
}

bool OutputWriter::stuck(Time now, std::chrono::milliseconds timeout) const {
  const std::lock_guard lock(state_->mutex);
  return state_->held >= kMuch && now - state_->moved >= timeout;
}

std::error_code OutputWriter::error() const {
  const std::lock_guard lock(state_->mutex);
  return state_->error;
}

void OutputWriter::write(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  while (true) {
    state->more.wait(lock, [&] { return state->unwanted || !state->waiting.empty(); });
    if (state->unwanted) return;
    const Waiting next = std::move(state->waiting.front());
    state->waiting.pop_front();
    for (std::size_t begin = 0; begin < next.text.size(); begin += kWrittenAtOnce) {
      const std::string_view piece = std::string_view(next.text).substr(begin, kWrittenAtOnce);
      std::error_code error;
      if (!state->failed.contains(next.descriptor)) {
        lock.unlock();
        error = write_all(next.descriptor, piece);
        lock.lock();
      }
      state->note_written(next.descriptor, piece.size(), error);
    }
  }
}

}  // namespace rueda
