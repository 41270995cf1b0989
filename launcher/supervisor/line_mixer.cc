// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/line_mixer.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace rueda {
namespace {

// The number of bytes at the end that begin a character of UTF-8, as long as its rest has not come.
std::size_t begun_character(std::string_view text) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xc0) == 0x80) continue;  // inside of a character
    const std::size_t length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}

}  // namespace

LineMixer::LineMixer(int sources, Prefix prefix)
    : prefix_(std::move(prefix)), sources_(static_cast<std::size_t>(sources)) {}

void LineMixer::add(int source, std::string_view text, Time now) {
  Source& from = sources_[static_cast<std::size_t>(source)];
  from.by_blocks = !text.empty() && text.size() % kBlock == 0;
  while (!text.empty()) {
    if (from.held.empty()) from.oldest = now;
    from.youngest = now;
    const std::size_t room = kLongestHeld - from.held.size();
    const std::size_t count = std::min({text.find_first_of("\r\n"), text.size(), room});
    from.held.append(text.substr(0, count));
    text.remove_prefix(count);
    if (text.starts_with('\r') && !text.starts_with("\r\n")) {
      text.remove_prefix(1);
      show(source, End::carriage_return);
    } else if (text.starts_with('\n') || text.starts_with("\r\n")) {
      if (text.front() == '\r') from.held += '\r';
      text.remove_prefix(text.find('\n') + 1);
      show(source, End::line);
    } else if (from.held.size() == kLongestHeld) {
      show_part(source);
    }
  }
  if (from.held.empty()) {
    holding_.erase(source);
  } else {
    holding_.insert(source);
  }
}

void LineMixer::add_own_line(std::string_view line) {
  if (cursor_ != Cursor::line_start) begin_new_line();
  ready_ += line;
  if (!line.ends_with('\n')) ready_ += '\n';
}

void LineMixer::show_due(Time now) {
  for (auto next = holding_.begin(); next != holding_.end();) {
    Source& from = sources_[static_cast<std::size_t>(*next)];
    if (now < from.due()) {
      ++next;
      continue;
    }
    show_part(*next);
    from.oldest = from.youngest = now;
    next = from.held.empty() ? holding_.erase(next) : std::next(next);
  }
}

std::optional<LineMixer::Time> LineMixer::next_time() const {
  std::optional<Time> next;
  for (int source : holding_) {
    const Source& from = sources_[static_cast<std::size_t>(source)];
    next = std::min(next.value_or(from.due()), from.due());
  }
  return next;
}

void LineMixer::finish() {
  for (int source : std::exchange(holding_, {})) show(source, prefix_ ? End::line : End::none);
  if (prefix_ && cursor_ != Cursor::line_start) begin_new_line();
}

std::string LineMixer::take() { return std::exchange(ready_, {}); }

// Of text without an end. The begin of a character waits once more for its rest.
void LineMixer::show_part(int source) {
  Source& from = sources_[static_cast<std::size_t>(source)];
  const std::size_t begun = begun_character(from.held);
  const std::size_t shown = begun < from.held.size() ? from.held.size() - begun : from.held.size();
  std::string rest = from.held.substr(shown);
  from.held.resize(shown);
  show(source, End::none);
  from.held = std::move(rest);
}

void LineMixer::show(int source, End end) {
  Source& from = sources_[static_cast<std::size_t>(source)];
  if (!prefix_ || begin(source, end)) write(from.held, end);
  if (!from.held.empty()) from.in_line = true;
  from.held.clear();
  if (end == End::none) return;
  from.in_bar = end == End::carriage_return;
  if (end == End::line) from.in_line = false;
}

// Puts the cursor where the source may write, and its prefix there; false when nothing is to be written.
bool LineMixer::begin(int source, End end) {
  const Source& from = sources_[static_cast<std::size_t>(source)];
  const bool is_last = writer_ == source && cursor_ != Cursor::line_start;
  const bool is_bar = end == End::carriage_return || (from.in_bar && end == End::none);
  const bool has_text = !from.held.empty() && from.held != "\r";
  if (is_last) over_bar_ = over_bar_ || is_bar;
  if (is_last && (cursor_ == Cursor::behind_text || (!has_text && end == End::line))) return true;
  if (!has_text && end == End::carriage_return) return false;  // it would change nothing
  if (!has_text && from.in_line) return false;                 // another source has ended that line
  if (!is_last && cursor_ != Cursor::line_start) {
    if (!is_bar || !over_bar_) {
      begin_new_line();
    } else if (cursor_ == Cursor::behind_text) {
      ready_ += '\r';
    }
  }
  ready_ += prefix_(source);
  writer_ = source;
  over_bar_ = is_bar;
  return true;
}

void LineMixer::write(std::string_view text, End end) {
  ready_ += text;
  if (end == End::none) {
    cursor_ = Cursor::behind_text;
  } else {
    ready_ += end == End::line ? '\n' : '\r';
    cursor_ = end == End::line ? Cursor::line_start : Cursor::over_text;
  }
}

void LineMixer::begin_new_line() {
  ready_ += '\n';
  cursor_ = Cursor::line_start;
}

}  // namespace rueda
