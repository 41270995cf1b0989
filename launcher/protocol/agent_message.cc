// SPDX-License-Identifier: Apache-2.0
#include "launcher/protocol/agent_message.h"

#include <signal.h>

#include <utility>

namespace rueda::agents {
namespace {

constexpr std::size_t kLongestName = 256;
constexpr std::size_t kLongestWords = 1024;

template <std::size_t N>
void put(Writer& writer, const std::array<std::byte, N>& block) {
  for (std::byte byte : block) writer.put(byte);
}

void get(Reader& reader, auto& block) {
  for (std::byte& byte : block) byte = std::byte{reader.get<std::uint8_t>()};
}

std::string get_text(Reader& reader, std::size_t longest) {
  std::string text = reader.get_string();
  if (text.size() > longest) reader.fail();
  return text;
}

std::int32_t get_number(Reader& reader, std::int32_t least) {
  const auto value = reader.get<std::int32_t>();
  if (value < least) reader.fail();
  return value;
}

std::int32_t get_signal(Reader& reader) {
  const std::int32_t signal = get_number(reader, 1);
  if (signal >= NSIG) reader.fail();
  return signal;
}

void write(Writer& writer, const Greeting& message) {
  writer.put(message.rank);
  put(writer, message.nonce);
}
void write(Writer& writer, const Challenge& message) {
  put(writer, message.nonce);
  put(writer, message.proof);
}
void write(Writer& writer, const Answer& message) { put(writer, message.proof); }
void write(Writer& writer, const Started& message) {
  writer.put_string(message.host.substr(0, kLongestName));
  writer.put(message.process);
  writer.put(message.agent);
  writer.put(message.proxy);
}
void write(Writer& writer, const Ended& message) {
  writer.put(message.status);
  writer.put(message.cause);
}
void write(Writer& writer, const PeerEnded& message) {
  writer.put(message.rank);
  writer.put_string(message.words.substr(0, kLongestWords));
}
void write(Writer& writer, const SendSignal& message) { writer.put(message.signal); }
void write(Writer&, const JobOver&) {}
void write(Writer& writer, const PassOn& message) { writer.put(message.signal); }

void read(Reader& reader, Greeting& message) {
  message.rank = get_number(reader, 0);
  get(reader, message.nonce);
}
void read(Reader& reader, Challenge& message) {
  get(reader, message.nonce);
  get(reader, message.proof);
}
void read(Reader& reader, Answer& message) { get(reader, message.proof); }
void read(Reader& reader, Started& message) {
  message.host = get_text(reader, kLongestName);
  message.process = get_number(reader, 1);
  message.agent = get_number(reader, 1);
  message.proxy = get_number(reader, 0);
}
void read(Reader& reader, Ended& message) {
  message.status = get_number(reader, 0);
  message.cause = reader.get_enum([](std::uint8_t value) -> std::optional<Cause> {
    if (value > static_cast<std::uint8_t>(Cause::hydra)) return std::nullopt;
    return static_cast<Cause>(value);
  });
}
void read(Reader& reader, PeerEnded& message) {
  message.rank = get_number(reader, 0);
  message.words = get_text(reader, kLongestWords);
}
void read(Reader& reader, SendSignal& message) { message.signal = get_signal(reader); }
void read(Reader&, JobOver&) {}
void read(Reader& reader, PassOn& message) { message.signal = get_signal(reader); }

// Makes the alternative of that number and reads it.
template <std::size_t... Numbers>
std::optional<Message> read_numbered(Reader& reader, std::uint8_t number, std::index_sequence<Numbers...>) {
  std::optional<Message> message;
  auto read_if = [&]<std::size_t Number>() {
    if (number != Number) return;
    read(reader, message.emplace().emplace<Number>());
  };
  (read_if.template operator()<Numbers>(), ...);
  return message;
}

}  // namespace

Bytes encode(const Message& message) {
  Writer writer;
  writer.put(static_cast<std::uint8_t>(message.index()));
  std::visit([&](const auto& alternative) { write(writer, alternative); }, message);
  return writer.take();
}

std::optional<Message> decode(ConstBytes bytes) {
  Reader reader(bytes);
  const auto number = reader.get<std::uint8_t>();
  if (!reader.ok()) return std::nullopt;
  std::optional<Message> message =
      read_numbered(reader, number, std::make_index_sequence<std::variant_size_v<Message>>());
  return message && reader.complete() ? message : std::nullopt;
}

}  // namespace rueda::agents
