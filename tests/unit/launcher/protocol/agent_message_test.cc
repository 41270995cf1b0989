// SPDX-License-Identifier: Apache-2.0
// Messages of agents and ruedarun survive the way; anything else is refused.
#include "launcher/protocol/agent_message.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "core/base/system/frame_stream.h"

namespace rueda::agents {
namespace {

std::vector<Message> one_of_each() {
  return {Launch{.ranks = {{1, 4, 0, 2, 1, 2}, {2, 4, 1, 2, 1, 2}},
                 .slots = 3,
                 .host = "node3",
                 .command = {"prog", "", "a b"},
                 .environment = {"A=1", "B=x\ny"},
                 .folder = "/home",
                 .signals = {3, 4},
                 .binding = Binding::core,
                 .forwards_input = true,
                 .hosts_of_processes = "(vector,(0,2,2))",
                 .name = "rueda_0123",
                 .terminal = TerminalSize{1, 2, 3, 4},
                 .needs_terminal = true,
                 .elastic = true,
                 .one_host = true},
          Ready{"node3", 16},
          Started{3, 17, "0-3"},
          Ended{3, 9, true, true, "allreduce: rank 1 shut down", true},
          CannotStart{"no"},
          Output{2, Stream::errors, "text\n"},
          Put{"key", "value"},
          BarrierIn{},
          BarrierOut{},
          PeerEnded{2, "rank 2 is gone"},
          SendSignal{15},
          PassOn{10},
          HoldOutput{true},
          Input{"text"},
          InputTaken{4},
          JobOver{},
          Resize{{24, 80, 0, 0}},
          KeyTyped{2},
          NoTerminal{"no devpts"},
          Credit{5},
          StartWorker{{5, 4, 1, 2, 0, 1}},
          WorkerState{5, WorkerState::Kind::formed, 1ULL << 40},
          EndWorker{5, false},
          Retire{5},
          ChangeDue{true, true},
          HostLeaves{},
          NewGeneration{{3, RankSet(2, 5)}}};
}

std::vector<Message> one_of_each_for_watchers() {
  return {
      Watch{200},
      Observed{
          .rank = 3,
          .now_ns = 7,
          .clock_offset_ns = -8,
          .resident_bytes = 9,
          .cpu_seconds = 1.5,
          .has_training = true,
          .generation = 2,
          .generation_since_ns = -12,
          .step = 10,
          .total_steps = 20,
          .samples_per_step = 32,
          .phase = Phase::wait,
          .phase_since_ns = 11,
          .spans = {{Phase::data, 9, 1, 2}, {Phase::garbage, 9, 2, 3}},
          .curves = {{"loss", {{9, 0.5}, {10, 0.25}}}, {"", {}}},
          .settings = {64, 1, 2, 3, true, 4, "keeps the defaults"},
          .failure = "shapes differ",
          .failed_at_ns = 7,
          .stall = "not submitted by: rank 2",
          .plans_uncounted = 5,
          .routes = {{6,
                      {Operation::broadcast, DataType::uint8, Compression::bf16, true, 7, "tcp", "", "tree"},
                      {8, 9, 10, 11, 12, 13, 14}}}},
      Observed{.rank = 4, .cpu_seconds = 2},
      HostLoad{5, 2, 0.5, 1 << 30, 1 << 20, 1.25, {{"eth0", 3, 4, 25e6, 24e6}}, {{"GPU", 50, -1, 2, 1}}},
      Request{6, RequestKind::timeline, "100 120 /tmp/a b.json"},
      AnswerPart{6, 3, false, "words"},
      Stalled{3}};
}

std::vector<Message> all_kinds() {
  std::vector<Message> all = one_of_each();
  std::ranges::copy(one_of_each_for_watchers(), std::back_inserter(all));
  return all;
}

TEST(AgentMessage, ComesBackAsItWas) {
  for (const Message& message : all_kinds()) EXPECT_EQ(decode(encode(message)), message) << message.index();
}

TEST(AgentMessage, EveryTruncationAndEveryExcessIsRefused) {
  for (const Message& message : all_kinds()) {
    Bytes bytes = encode(message);
    for (std::size_t length = 0; length < bytes.size(); ++length)
      EXPECT_FALSE(decode(ConstBytes(bytes).first(length))) << message.index() << " of " << length;
    bytes.push_back(std::byte{0});
    EXPECT_FALSE(decode(bytes)) << message.index();
  }
}

TEST(AgentMessage, FlippedBitsGiveAnotherMessageOrNone) {
  for (const Message& message : all_kinds()) {
    const Bytes bytes = encode(message);
    for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
      Bytes flipped = bytes;
      flipped[bit / 8] ^= std::byte{1} << bit % 8;
      EXPECT_NE(decode(flipped), message);
    }
  }
}

TEST(AgentMessage, ValuesOutOfRangeAreRefused) {
  EXPECT_FALSE(decode(encode(SendSignal{0})));
  EXPECT_FALSE(decode(encode(SendSignal{1000})));
  EXPECT_FALSE(decode(encode(PassOn{0})));
  EXPECT_FALSE(decode(encode(PassOn{1000})));
  EXPECT_FALSE(decode(encode(KeyTyped{0})));
  EXPECT_FALSE(decode(encode(KeyTyped{9}))) << "no key makes it";
  EXPECT_FALSE(decode(encode(Started{0, 0, ""}))) << "signals to process 0 go to everybody";
  EXPECT_FALSE(decode(encode(Started{-1, 7, ""})));
  EXPECT_FALSE(decode(encode(Output{0, static_cast<Stream>(2), ""})));
  EXPECT_FALSE(decode(encode(Output{0, Stream::output, std::string(kLongestOutput + 1, 'x')})));
  EXPECT_FALSE(decode(encode(Launch{.command = {"prog"}}))) << "no rank";
  EXPECT_TRUE(decode(encode(Launch{.command = {"prog"}, .elastic = true}))) << "ranks come later";
  EXPECT_FALSE(decode(encode(Launch{.ranks = {{}}}))) << "no program";
}

TEST(AgentMessage, ObservationsOutOfRangeAreRefused) {
  EXPECT_FALSE(decode(encode(Watch{4'000'000'000U})));
  EXPECT_FALSE(decode(encode(Observed{.rank = -1})));
  EXPECT_FALSE(decode(encode(Observed{.cpu_seconds = -1})));
  EXPECT_FALSE(decode(encode(Observed{.has_training = true, .phase = static_cast<Phase>(kPhaseCount)})));
  EXPECT_FALSE(
      decode(encode(Observed{.has_training = true, .spans = std::vector<Observed::Span>(kMostSpans + 1)})));
  EXPECT_FALSE(decode(encode(
      Observed{.has_training = true, .curves = {{"a", std::vector<Observed::Point>(kMostPoints + 1)}}})));
  EXPECT_FALSE(decode(encode(Observed{.has_training = true, .curves = {{std::string(65, 'x'), {}}}})));
  const auto with_route = [](CountedRoute route) {
    return encode(Observed{.has_training = true, .routes = {std::move(route)}});
  };
  EXPECT_TRUE(decode(with_route({})));
  EXPECT_FALSE(decode(with_route({.number = TrainingPage::kRoutes})));
  EXPECT_FALSE(decode(with_route({.kind = {.operation = static_cast<Operation>(kOperationCount)}})));
  EXPECT_FALSE(decode(with_route({.kind = {.size_class = 64}})));
  EXPECT_FALSE(decode(with_route({.kind = {.backend = std::string(25, 'x')}})));
  EXPECT_FALSE(
      decode(encode(Observed{.has_training = true, .routes = std::vector<CountedRoute>(kMostRoutes + 1)})));
  EXPECT_FALSE(
      decode(encode(Observed{.has_training = true, .settings = {.tuner_words = std::string(129, 'x')}})));
  EXPECT_FALSE(decode(encode(HostLoad{.busy = -0.5})));
  EXPECT_FALSE(decode(encode(HostLoad{.gpus = std::vector<GpuLoad>(33)})));
  EXPECT_FALSE(decode(encode(HostLoad{.gpus = {{.busy_percent = 101}}})));
  EXPECT_FALSE(decode(encode(HostLoad{.gpus = {{.celsius = -2}}})));
  EXPECT_FALSE(decode(encode(HostLoad{.cards = std::vector<HostLoad::Card>(kMostCards + 1)})));
}

TEST(AgentMessage, RequestsOutOfRangeAreRefused) {
  EXPECT_FALSE(decode(encode(Request{1, static_cast<RequestKind>(3), ""})));
  EXPECT_FALSE(decode(encode(Request{1, RequestKind::stacks, std::string(kLongestRequest + 1, 'x')})));
  EXPECT_FALSE(decode(encode(AnswerPart{.rank = -1})));
  EXPECT_FALSE(decode(encode(Stalled{-1})));
  EXPECT_FALSE(decode(encode(AnswerPart{.bytes = std::string(kLongestPart + 1, 'x')})));
}

TEST(AgentMessage, ATimelineIsAskedForInWords) {
  const auto request = timeline_request_from(timeline_request_text({5, 25, "/a folder/trace.json"}));
  ASSERT_TRUE(request);
  EXPECT_EQ(request->first, 5u);
  EXPECT_EQ(request->last, 25u);
  EXPECT_EQ(request->path, "/a folder/trace.json");
  for (const char* text : {"", "5", "5 25", "5 25 ", "25 5 /a", "5 5 /a", "-1 5 /a", "x 5 /a", "5  /a"})
    EXPECT_FALSE(timeline_request_from(text)) << text;
}

TEST(AgentMessage, TheLongestObservationsFitIntoTheWindow) {
  Observed rank{.has_training = true, .spans = std::vector<Observed::Span>(kMostSpans)};
  for (std::size_t i = 0; i < 64; ++i) rank.curves.push_back({std::string(64, 'x'), {}});
  rank.curves.front().points.resize(kMostPoints);
  rank.settings.tuner_words.assign(TrainingPage::kVerdictBytes, 'x');
  const RouteKind kind{
      .backend = std::string(24, 'x'), .inside = std::string(16, 'x'), .between = std::string(24, 'x')};
  rank.routes.assign(kMostRoutes, {0, kind, {}});
  EXPECT_LE(cost_of(encode(rank)), kMostAhead);
  const HostLoad load{.cards = std::vector<HostLoad::Card>(kMostCards, {std::string(64, 'x'), 0, 0, 0}),
                      .gpus = std::vector<GpuLoad>(32, {.name = std::string(64, 'x')})};
  EXPECT_LE(cost_of(encode(load)), kMostAhead);
}

struct Ends {
  std::array<int, 2> raw{-1, -1};
  Ends() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, raw.data()), 0); }
};

TEST(FrameStream, FramesComeWhole) {
  Ends ends;
  FrameStream from{Descriptor(ends.raw[0])}, to{Descriptor(ends.raw[1])};
  const Bytes small(3, std::byte{1}), large(FrameStream::kLongestFrame, std::byte{2});
  for (int i = 0; i < 5; ++i) {
    from.send(small);
    from.send(large);
  }
  for (int i = 0; i < 10; ++i) {
    std::optional<Bytes> frame;
    while (!(frame = to.take())) to.receive();
    EXPECT_EQ(*frame, i % 2 == 0 ? small : large);
  }
}

TEST(FrameStream, AFrameThatIsTooLongBreaksTheStream) {
  Ends ends;
  Descriptor raw(ends.raw[0]);
  FrameStream to{Descriptor(ends.raw[1])};
  const std::uint32_t length = FrameStream::kLongestFrame + 1;
  ASSERT_EQ(::send(raw.number(), &length, sizeof length, 0), static_cast<ssize_t>(sizeof length));
  to.receive();
  EXPECT_FALSE(to.take());
  EXPECT_FALSE(to);
}

TEST(FrameStream, APeerThatDoesNotReadIsGivenUp) {
  Ends ends;
  Descriptor deaf(ends.raw[0]);
  FrameStream from{Descriptor(ends.raw[1])};
  const Bytes frame(FrameStream::kLongestFrame);
  for (int i = 0; i < 2000 && from; ++i) from.send(frame);
  EXPECT_FALSE(from);
}

}  // namespace
}  // namespace rueda::agents
