// SPDX-License-Identifier: Apache-2.0
// Pages of ranks that live, end, and send nonsense.
#include "launcher/dump/rank_recordings.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include <memory>
#include <new>

#include "core/observe/recorder.h"
#include "launcher/dump/recordings_message.h"

namespace rueda {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::size_t kOffset = 4096;

// A page in the middle of a file, as a rank has it.
class PageInFile {
 public:
  PageInFile() : file_(::memfd_create("page", MFD_CLOEXEC)) {
    constexpr std::size_t kBytes = kOffset + sizeof(RecorderPage);
    EXPECT_EQ(::ftruncate(file_.number(), kBytes), 0);
    memory_ = static_cast<std::byte*>(
        ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.number(), 0));
    std::shared_ptr<std::byte> whole(memory_, [](std::byte* memory) { ::munmap(memory, kBytes); });
    recorder_.use_page({whole, new (memory_ + kOffset) RecorderPage});
    recorder_.identify(0, 1, 0);
  }

  Recorder& recorder() { return recorder_; }
  Descriptor file() const { return Descriptor(::dup(file_.number())); }

 private:
  Descriptor file_;
  std::byte* memory_ = nullptr;
  Recorder recorder_;
};

std::vector<std::string> names_of(const RankRecordings& recordings, int rank) {
  std::vector<std::string> names;
  const RankRecording recording = read_rank_recordings(recordings.of(rank)).value();
  for (const RecordedRuntime& runtime : recording.runtimes) names.push_back(runtime.name);
  return names;
}

TEST(RankRecordings, ReadsWhatARankRecordsAndWhatItHadRecorded) {
  RankRecordings recordings;
  auto page = std::make_unique<PageInFile>();
  recordings.take(3, page->file(), kOffset, "- ");
  Request request;
  request.name = "x";
  page->recorder().submitted("x", request);
  EXPECT_THAT(read_rank_recordings(recordings.of(3))->runtimes.at(0).recording.in_flight, SizeIs(1));
  recordings.note_end(3);
  page->recorder().submitted("y", request);
  page.reset();
  const std::optional<RankRecording> kept = read_rank_recordings(recordings.of(3));
  EXPECT_THAT(kept->runtimes.at(0).recording.in_flight, SizeIs(1));
  EXPECT_THAT(names_of(recordings, 4), IsEmpty());
}

TEST(RankRecordings, ReadsLaterWhatIsThereThen) {
  auto recordings = std::make_unique<RankRecordings>();
  PageInFile page;
  recordings->take(3, page.file(), kOffset, "- ");
  const auto later = recordings->later(3);
  Request request;
  request.name = "x";
  page.recorder().submitted("x", request);
  recordings->note_end(3);
  recordings.reset();
  EXPECT_THAT(read_rank_recordings(later())->runtimes.at(0).recording.in_flight, SizeIs(1));
}

TEST(RankRecordings, AnotherPageTakesTheSeatOfOneThatIsOver) {
  RankRecordings recordings;
  PageInFile first, second, third;
  recordings.take(0, first.file(), kOffset, "- ");
  recordings.take(0, second.file(), kOffset, "0-1 group 1");
  EXPECT_THAT(names_of(recordings, 0), ElementsAre("", "group 1"));
  second.recorder().end_in_order();
  recordings.take(0, third.file(), kOffset, "0,2 group 2");
  EXPECT_THAT(names_of(recordings, 0), ElementsAre("", "group 2"));
  recordings.take(0, first.file(), kOffset, "- ");
  EXPECT_THAT(names_of(recordings, 0), ElementsAre("group 2", ""));
}

TEST(RankRecordings, KeepsABoundedNumber) {
  RankRecordings recordings;
  PageInFile page;
  for (int i = 0; i < 80; ++i) recordings.take(0, page.file(), kOffset, "- group " + std::to_string(i));
  const std::vector<std::string> names = names_of(recordings, 0);
  EXPECT_THAT(names, SizeIs(RankRecordings::kMostPages));
  EXPECT_EQ(names.back(), "group 79");
}

TEST(RankRecordings, DropsWhatIsNoPage) {
  RankRecordings recordings;
  PageInFile page;
  recordings.take(0, Descriptor(), kOffset, "- ");
  recordings.take(0, Descriptor(::open("/dev/zero", O_RDONLY | O_CLOEXEC)), 0, "- zero");
  recordings.take(0, page.file(), kOffset + 8, "- too short");
  recordings.take(0, page.file(), std::uint64_t{1} << 63, "- far");
  recordings.take(0, page.file(), 0, "- zeroes");
  EXPECT_THAT(names_of(recordings, 0), IsEmpty());
  recordings.take(0, page.file(), kOffset, "no ranks");
  EXPECT_THAT(names_of(recordings, 0), IsEmpty());
}

}  // namespace
}  // namespace rueda
