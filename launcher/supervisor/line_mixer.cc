// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/line_mixer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "launcher/supervisor/control_sequences.h"

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

LineMixer::Source& LineMixer::source_of(int source) {
  const auto index = static_cast<std::size_t>(source);
  if (index >= sources_.size()) sources_.resize(index + 1);
  return sources_[index];
}

void LineMixer::add(int source, std::string_view text, Time now) {
  if (line_until_) {
    deferred_.push_back({source, std::string(text), now});
    return;
  }
  Source& from = source_of(source);
  from.by_blocks = !text.empty() && text.size() % kBlock == 0;
  if (!text.empty()) from.begun = false;
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

void LineMixer::add_as_it_is(int source, std::string_view text, Time now) {
  Source& from = source_of(source);
  from.as_it_is = true;
  from.held += text;
  from.oldest = from.youngest = now;
  const std::size_t whole = whole_sequences(from.held);
  write_as_it_is(source, std::string_view(from.held).substr(0, whole), now);
  from.held.erase(0, whole);
  if (from.held.empty()) {
    holding_.erase(source);
  } else {
    holding_.insert(source);
  }
}

void LineMixer::write_as_it_is(int source, std::string_view text, Time now) {
  if (text.empty()) return;
  const bool is_bar = over_bar_ && text.starts_with('\r');
  if (prefix_ && writer_ != source && cursor_ != Cursor::line_start && !is_bar) begin_new_line();
  const bool in_line = writer_ == source && cursor_ == Cursor::behind_text;
  ready_ += text;
  writer_ = source;
  note_cursor(text);
  if (cursor_ != Cursor::behind_text) return add_deferred();
  const bool begins_line = !in_line || text.find_first_of("\r\n") != text.npos;
  if (begins_line && !line_until_) line_until_ = now + kLineTime;
}

void LineMixer::add_deferred() {
  line_until_.reset();
  for (const Deferred& each : std::exchange(deferred_, {}))
    each.source < 0 ? add_own_line(each.text) : add(each.source, each.text, each.time);
}

// After text that begins and ends outside of control sequences, which are taken for invisible.
void LineMixer::note_cursor(std::string_view text) {
  while (!text.empty()) {
    const bool is_return = text.starts_with('\r') && !text.starts_with("\r\n");
    if (text.front() == '\n') {
      cursor_ = Cursor::line_start;
      over_bar_ = false;
    } else if (is_return) {
      if (cursor_ == Cursor::behind_text) cursor_ = Cursor::over_text;
      over_bar_ = true;
    } else if (static_cast<unsigned char>(text.front()) >= ' ') {
      cursor_ = Cursor::behind_text;
    }
    text.remove_prefix(std::max<std::size_t>(1, sequence_length(text)));
  }
}

void LineMixer::add_own_line(std::string_view line) {
  if (line_until_) {
    deferred_.push_back({-1, std::string(line), {}});
    return;
  }
  if (cursor_ != Cursor::line_start) begin_new_line();
  if (line.ends_with('\n')) line.remove_suffix(1);
  ready_ += line;
  ready_ += line_end_;
}

void LineMixer::show_due(Time now) {
  if (line_until_ && *line_until_ <= now) add_deferred();
  for (auto next = holding_.begin(); next != holding_.end();) {
    Source& from = sources_[static_cast<std::size_t>(*next)];
    if (now < from.due()) {
      ++next;
      continue;
    }
    if (from.as_it_is) {
      write_as_it_is(*next, std::exchange(from.held, {}), now);
    } else {
      show_part(*next);
    }
    from.oldest = from.youngest = now;
    next = from.held.empty() ? holding_.erase(next) : std::next(next);
  }
}

std::optional<LineMixer::Time> LineMixer::next_time() const {
  std::optional<Time> next;
  if (!deferred_.empty()) next = line_until_;
  for (int source : holding_) {
    const Source& from = sources_[static_cast<std::size_t>(source)];
    next = std::min(next.value_or(from.due()), from.due());
  }
  return next;
}

void LineMixer::finish() {
  add_deferred();
  for (int source : std::exchange(holding_, {})) {
    Source& from = sources_[static_cast<std::size_t>(source)];
    if (from.as_it_is) {
      write_as_it_is(source, std::exchange(from.held, {}), from.youngest);
      line_until_.reset();
    } else {
      show(source, prefix_ ? End::line : End::none);
    }
  }
  if (prefix_ && cursor_ != Cursor::line_start) begin_new_line();
}

std::string LineMixer::take() { return std::exchange(ready_, {}); }

// Shows text that has no line end yet. The begin of a character waits for its rest, but not twice.
void LineMixer::show_part(int source) {
  Source& from = sources_[static_cast<std::size_t>(source)];
  const std::size_t begun = from.begun ? 0 : begun_character(from.held);
  std::string rest = from.held.substr(from.held.size() - begun);
  from.held.resize(from.held.size() - begun);
  if (!from.held.empty()) show(source, End::none);
  from.held = std::move(rest);
  from.begun = begun > 0;
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
    ready_ += end == End::line ? line_end_ : "\r";
    cursor_ = end == End::line ? Cursor::line_start : Cursor::over_text;
  }
}

void LineMixer::begin_new_line() {
  ready_ += line_end_;
  cursor_ = Cursor::line_start;
}

}  // namespace rueda
