// SPDX-License-Identifier: Apache-2.0
// Lines of several writers on one output.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace rueda {

// The end of a line: a line feed, or for a terminal in raw mode a carriage return and a line feed.
enum class LineEnd { feed, both };

// Purpose: makes one text of what several sources write, each of them in pieces of any size; pure, time comes
// in. A piece ends at a line feed, or at a carriage return as progress bars have them; it is shown as soon as
// it is whole. Text without an end (a prompt) is shown when nothing has followed it for kQuiet, or after
// kLongestHold, and what follows it is put behind it. With prefixes each piece begins with one, and sources
// never share a line: where another one must write behind unfinished text, it begins a new line. Only bars
// overwrite each other, as each update names its source. Without prefixes no byte is added or left out.
// A source with a terminal of its own has no prefix, and its bytes are shown at once, as they are: nothing
// comes between the bytes of a control sequence or of a character. Owner: the main thread.
class LineMixer {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Prefix = std::function<std::string(int source)>;
  static constexpr std::size_t kLongestHeld = 1 << 20;  // bytes of a piece
  static constexpr std::chrono::milliseconds kQuiet{200};
  static constexpr std::chrono::milliseconds kLongestHold{600};
  // C and Python write into pipes by whole blocks: text that ends with one is no prompt, and its line is on
  // the way.
  static constexpr std::size_t kBlock = 4096;  // bytes
  static constexpr std::chrono::milliseconds kBlockHold{5000};
  // The begin of a character of UTF-8 waits for its rest; it may be none.
  static constexpr std::chrono::milliseconds kCharacterHold{2000};
  // A program on a terminal may write a line in several pieces.
  static constexpr std::chrono::milliseconds kLineTime{50};

  // `sources`: those that are known; others may follow.
  explicit LineMixer(int sources, Prefix prefix = {});

  void add(int source, std::string_view text, Time now);
  void add_as_it_is(int source, std::string_view text, Time now);  // of a source with a terminal
  void add_own_line(std::string_view line);                        // of nobody: begins a new line in any case
  void show_due(Time now);
  std::optional<Time> next_time() const;  // show_due() has something to do then
  void use(LineEnd line_end) { line_end_ = line_end == LineEnd::both ? "\r\n" : "\n"; }
  void finish();  // all that is left, each on a line of its own where there are prefixes

  std::string take();  // what is to be written

 private:
  enum class End { none, line, carriage_return };
  // Text of another source, which waits meanwhile.
  struct Deferred {
    int source = 0;  // -1: nobody's own line
    std::string text;
    Time time;
  };
  // How the last piece written has ended.
  enum class Cursor {
    line_start,   // by a line feed
    behind_text,  // not yet
    over_text,    // by a carriage return: what comes next overwrites it
  };
  struct Source {
    std::string held;        // of a piece, not shown yet
    bool in_line = false;    // the line has been shown in part
    bool in_bar = false;     // the piece began with a carriage return
    Time oldest, youngest;   // byte of `held`
    bool by_blocks = false;  // the last piece was of whole blocks
    bool begun = false;      // `held` is the begin of a character
    bool as_it_is = false;   // it has a terminal
    Time due() const {
      if (begun) return youngest + kCharacterHold;
      return by_blocks ? youngest + kBlockHold : std::min(youngest + kQuiet, oldest + kLongestHold);
    }
  };

  Source& source_of(int source);
  void show(int source, End end);
  void show_part(int source);
  void write_as_it_is(int source, std::string_view text, Time now);
  void add_deferred();
  void note_cursor(std::string_view text);
  bool begin(int source, End end);
  void write(std::string_view text, End end);
  void begin_new_line();

  Prefix prefix_;
  std::string_view line_end_ = "\n";
  std::vector<Source> sources_;
  std::set<int> holding_;  // sources of which something is held
  std::string ready_;
  Cursor cursor_ = Cursor::line_start;
  int writer_ = -1;                 // of the piece at the cursor
  bool over_bar_ = false;           // that piece is one of a progress bar
  std::optional<Time> line_until_;  // a source with a terminal has begun a line
  std::vector<Deferred> deferred_;
};

}  // namespace rueda
