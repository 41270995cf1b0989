// SPDX-License-Identifier: Apache-2.0
#include "launcher/protocol/agent_message.h"

#include <signal.h>

#include <utility>

#include "launcher/protocol/bounded_values.h"

namespace rueda::agents {
namespace {

constexpr std::size_t kLongestName = 256;
constexpr std::size_t kLongestWords = 1024;
constexpr std::size_t kLongestPath = 4096;

std::int32_t get_signal(Reader& reader) { return get_number(reader, 1, NSIG - 1); }
bool get_flag(Reader& reader) { return get_number(reader, 0, 1) == 1; }
void put_flag(Writer& writer, bool flag) { writer.put(std::int32_t{flag}); }

template <class Enum>
Enum get_up_to(Reader& reader, Enum last) {
  return reader.get_enum([=](std::uint8_t value) -> std::optional<Enum> {
    if (value > static_cast<std::uint8_t>(last)) return std::nullopt;
    return static_cast<Enum>(value);
  });
}

void put_texts(Writer& writer, const std::vector<std::string>& texts) {
  writer.put_count(texts.size());
  for (const std::string& text : texts) writer.put_string(text);
}

std::vector<std::string> get_texts(Reader& reader) {
  std::vector<std::string> texts;
  const std::size_t count = reader.get_count(1);
  for (std::size_t i = 0; i < count && reader.ok(); ++i) texts.push_back(reader.get_string());
  return texts;
}

void put_size(Writer& writer, const TerminalSize& size) {
  for (const std::uint16_t number : {size.rows, size.columns, size.width, size.height}) writer.put(number);
}

TerminalSize get_size(Reader& reader) {
  TerminalSize size;
  for (std::uint16_t* number : {&size.rows, &size.columns, &size.width, &size.height})
    *number = reader.get<std::uint16_t>();
  return size;
}

void put_slot(Writer& writer, const SlotInfo& slot) {
  for (const int number :
       {slot.rank, slot.size, slot.local_rank, slot.local_size, slot.cross_rank, slot.cross_size})
    writer.put(number);
}

SlotInfo get_slot(Reader& reader) {
  SlotInfo slot;
  for (int* number :
       {&slot.rank, &slot.size, &slot.local_rank, &slot.local_size, &slot.cross_rank, &slot.cross_size})
    *number = get_number(reader, 0, kMostRanks);
  return slot;
}

void write(Writer& writer, const Launch& message) {
  writer.put_count(message.ranks.size());
  for (const SlotInfo& slot : message.ranks) put_slot(writer, slot);
  writer.put(message.slots);
  writer.put_string(message.host.substr(0, kLongestName));
  put_texts(writer, message.command);
  put_texts(writer, message.environment);
  writer.put_string(message.folder);
  writer.put(message.signals.ignored);
  writer.put(message.signals.blocked);
  writer.put(message.binding);
  put_flag(writer, message.forwards_input);
  writer.put_string(message.hosts_of_processes);
  writer.put_string(message.name);
  put_flag(writer, message.terminal.has_value());
  if (message.terminal) put_size(writer, *message.terminal);
  put_flag(writer, message.needs_terminal);
  put_flag(writer, message.elastic);
  put_flag(writer, message.one_host);
}
void read(Reader& reader, Launch& message) {
  const std::size_t count = reader.get_count(6 * sizeof(std::int32_t));
  for (std::size_t i = 0; i < count && reader.ok(); ++i) message.ranks.push_back(get_slot(reader));
  message.slots = get_number(reader, 1, kMostRanks);
  message.host = get_text(reader, kLongestName);
  message.command = get_texts(reader);
  message.environment = get_texts(reader);
  message.folder = get_text(reader, kLongestPath);
  message.signals.ignored = reader.get<std::uint64_t>();
  message.signals.blocked = reader.get<std::uint64_t>();
  message.binding = get_up_to(reader, Binding::socket);
  message.forwards_input = get_flag(reader);
  message.hosts_of_processes = reader.get_string();
  message.name = get_text(reader, kLongestName);
  if (get_flag(reader)) message.terminal = get_size(reader);
  message.needs_terminal = get_flag(reader);
  message.elastic = get_flag(reader);
  message.one_host = get_flag(reader);
  if ((message.ranks.empty() && !message.elastic) || message.command.empty()) reader.fail();
}

void write(Writer& writer, const Ready& message) {
  writer.put_string(message.host.substr(0, kLongestName));
  writer.put(message.agent);
}
void read(Reader& reader, Ready& message) {
  message.host = get_text(reader, kLongestName);
  message.agent = get_number(reader, 1);
}

void write(Writer& writer, const Started& message) {
  writer.put(message.rank);
  writer.put(message.process);
  writer.put_string(message.cores.substr(0, kLongestWords));
}
void read(Reader& reader, Started& message) {
  message.rank = get_rank(reader);
  message.process = get_number(reader, 1);
  message.cores = get_text(reader, kLongestWords);
}

void write(Writer& writer, const Ended& message) {
  writer.put(message.rank);
  writer.put(message.status);
  put_flag(writer, message.asked);
  put_flag(writer, message.in_mpi);
  writer.put_string(message.failure.substr(0, TrainingPage::kFailureBytes));
  put_flag(writer, message.saw_loss);
}
void read(Reader& reader, Ended& message) {
  message.rank = get_rank(reader);
  message.status = get_number(reader, 0);
  message.asked = get_flag(reader);
  message.in_mpi = get_flag(reader);
  message.failure = get_text(reader, TrainingPage::kFailureBytes);
  message.saw_loss = get_flag(reader);
}

void write(Writer& writer, const CannotStart& message) {
  writer.put_string(message.why.substr(0, kLongestWords));
}
void read(Reader& reader, CannotStart& message) { message.why = get_text(reader, kLongestWords); }

void write(Writer& writer, const NoTerminal& message) {
  writer.put_string(message.why.substr(0, kLongestWords));
}
void read(Reader& reader, NoTerminal& message) { message.why = get_text(reader, kLongestWords); }

void write(Writer& writer, const Output& message) {
  writer.put(message.rank);
  writer.put(message.stream);
  writer.put_string(message.text);
}
void read(Reader& reader, Output& message) {
  message.rank = get_rank(reader);
  message.stream = get_up_to(reader, Stream::errors);
  message.text = get_text(reader, kLongestOutput);
}

void write(Writer& writer, const Put& message) {
  writer.put_string(message.key.substr(0, kLongestKey));
  writer.put_string(message.value.substr(0, kLongestValue));
}
void read(Reader& reader, Put& message) {
  message.key = get_text(reader, kLongestKey);
  message.value = get_text(reader, kLongestValue);
}

void write(Writer& writer, const PeerEnded& message) {
  writer.put(message.rank);
  writer.put_string(message.words.substr(0, kLongestWords));
}
void read(Reader& reader, PeerEnded& message) {
  message.rank = get_rank(reader);
  message.words = get_text(reader, kLongestWords);
}

void write(Writer& writer, const SendSignal& message) { writer.put(message.signal); }
void read(Reader& reader, SendSignal& message) { message.signal = get_signal(reader); }
void write(Writer& writer, const PassOn& message) { writer.put(message.signal); }
void read(Reader& reader, PassOn& message) { message.signal = get_signal(reader); }
void write(Writer& writer, const HoldOutput& message) { put_flag(writer, message.hold); }
void read(Reader& reader, HoldOutput& message) { message.hold = get_flag(reader); }
void write(Writer& writer, const Input& message) { writer.put_string(message.text); }
void read(Reader& reader, Input& message) { message.text = get_text(reader, kLongestInput); }
void write(Writer& writer, const InputTaken& message) { writer.put(message.bytes); }
void read(Reader& reader, InputTaken& message) { message.bytes = reader.get<std::uint32_t>(); }
void write(Writer& writer, const Credit& message) { writer.put(message.cost); }
void read(Reader& reader, Credit& message) { message.cost = reader.get<std::uint32_t>(); }
void write(Writer& writer, const Resize& message) { put_size(writer, message.size); }
void read(Reader& reader, Resize& message) { message.size = get_size(reader); }
void write(Writer& writer, const KeyTyped& message) { writer.put(message.signal); }
void read(Reader& reader, KeyTyped& message) {
  message.signal = get_signal(reader);
  if (message.signal != SIGINT && message.signal != SIGQUIT && message.signal != SIGTSTP) reader.fail();
}
void write(Writer& writer, const StartWorker& message) { put_slot(writer, message.slot); }
void read(Reader& reader, StartWorker& message) { message.slot = get_slot(reader); }
void write(Writer& writer, const WorkerState& message) {
  writer.put(message.worker);
  writer.put(message.kind);
  writer.put(message.generation);
}
void read(Reader& reader, WorkerState& message) {
  message.worker = get_rank(reader);
  message.kind = get_up_to(reader, WorkerState::Kind::has_state);
  message.generation = reader.get<std::uint64_t>();
}
void write(Writer& writer, const EndWorker& message) {
  writer.put(message.worker);
  put_flag(writer, message.is_loss);
}
void read(Reader& reader, EndWorker& message) {
  message.worker = get_rank(reader);
  message.is_loss = get_flag(reader);
}
void write(Writer& writer, const Retire& message) { writer.put(message.worker); }
void read(Reader& reader, Retire& message) { message.worker = get_rank(reader); }
void write(Writer& writer, const ChangeDue& message) {
  put_flag(writer, message.joiners);
  put_flag(writer, message.leavers);
}
void read(Reader& reader, ChangeDue& message) {
  message.joiners = get_flag(reader);
  message.leavers = get_flag(reader);
}
void write(Writer&, const HostLeaves&) {}
void read(Reader&, HostLeaves&) {}
void write(Writer& writer, const NewGeneration& message) { writer.put_string(to_text(message.generation)); }
void read(Reader& reader, NewGeneration& message) {
  const std::optional<Generation> generation = generation_from(reader.get_string());
  if (!generation) return reader.fail();
  message.generation = *generation;
}
void write(Writer&, const BarrierIn&) {}
void read(Reader&, BarrierIn&) {}
void write(Writer&, const BarrierOut&) {}
void read(Reader&, BarrierOut&) {}
void write(Writer&, const JobOver&) {}
void read(Reader&, JobOver&) {}

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
