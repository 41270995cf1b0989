// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/output_demux.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace rueda {
namespace {

constexpr char kOpen = '\x01';
constexpr char kClose = '\x02';

std::string start_of_label(const std::string& token) { return kOpen + token + ":"; }

// How many bytes at the end of `text` may be the first ones of `start`.
std::size_t begun_at_end(std::string_view text, std::string_view start) {
  for (std::size_t length = std::min(text.size(), start.size() - 1); length > 0; --length)
    if (text.ends_with(start.substr(0, length))) return length;
  return 0;
}

}  // namespace

OutputDemux::OutputDemux(const std::string& token, Consumer consumer)
    : start_(start_of_label(token)), consumer_(std::move(consumer)) {}

std::string OutputDemux::label_pattern(const std::string& token) {
  return start_of_label(token) + "%r" + kClose;
}

void OutputDemux::feed(std::string_view bytes) {
  buffer_.erase(0, std::exchange(position_, 0));
  buffer_.append(bytes);
  while (take_label() || take_text(false)) {}
}

void OutputDemux::finish() {
  while (take_label() || take_text(true)) {}
}

bool OutputDemux::take_label() {
  if (!rest().starts_with(start_)) return false;
  std::size_t close = rest().find(kClose, start_.size());
  if (close == std::string_view::npos) return false;
  std::from_chars(rest().data() + start_.size(), rest().data() + close, rank_);
  position_ += close + 1;
  return true;
}

// Passes on the rest up to the next line end or label; false when there is nothing to pass on yet.
bool OutputDemux::take_text(bool ended) {
  std::string_view text = rest();
  if (text.empty()) return false;
  std::size_t line_end = text.find('\n');
  std::size_t label = text.substr(0, line_end).find(start_);
  if (label == std::string_view::npos && line_end != std::string_view::npos) {
    pass_on(line_end + 1);
    rank_ = kMpiexec;
    return true;
  }
  if (label == std::string_view::npos) label = text.size() - (ended ? 0 : begun_at_end(text, start_));
  if (label == 0 && ended) label = text.size();  // a label cut off by the end
  if (label == 0) return false;                  // the rest of it is on its way
  pass_on(label);
  return true;
}

void OutputDemux::pass_on(std::size_t count) {
  consumer_(rank_, rest().substr(0, count));
  position_ += count;
}

}  // namespace rueda
