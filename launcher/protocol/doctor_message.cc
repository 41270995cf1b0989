// SPDX-License-Identifier: Apache-2.0
#include "launcher/protocol/doctor_message.h"

#include <algorithm>
#include <type_traits>

namespace rueda::agents {
namespace {

constexpr std::size_t kLongestText = 128 << 10;  // Linux gives a variable of the environment no more
constexpr std::size_t kLongestList = 64 << 10;
constexpr std::int32_t kMostMilliseconds = 10'000;

template <class T>
constexpr bool is_list = false;
template <class T>
constexpr bool is_list<std::vector<T>> = true;

// The fields of each message, once for both directions.
template <class Archive, class Facts>
void fields(Archive& archive, Facts& facts) {
  using Message = std::remove_const_t<Facts>;
  if constexpr (std::is_same_v<Message, CardFacts>)
    archive(facts.name, facts.address, facts.port, facts.megabits, facts.mtu);
  else if constexpr (std::is_same_v<Message, LimitFacts>)
    archive(facts.soft, facts.hard);
  else if constexpr (std::is_same_v<Message, NameFacts>)
    archive(facts.name, facts.addresses, facts.problem);
  else if constexpr (std::is_same_v<Message, MemoryFacts>)
    archive(facts.shm_bytes, facts.shm_free, facts.shm_problem, facts.memfd_problem, facts.installed,
            facts.available, facts.cgroup_limit, facts.cgroup_used, facts.huge_pages);
  else if constexpr (std::is_same_v<Message, CoreFacts>)
    archive(facts.online, facts.usable, facts.physical, facts.numa_nodes, facts.cgroup_millicores,
            facts.clock_source);
  else if constexpr (std::is_same_v<Message, ProcessFacts>)
    archive(facts.open_files, facts.processes, facts.locked_memory, facts.core_file, facts.threads_of_user,
            facts.cgroup_limit, facts.cgroup_used, facts.is_root, facts.in_container, facts.sees_all,
            facts.left_files, facts.left_count, facts.left_bytes);
  else if constexpr (std::is_same_v<Message, NetworkFacts>)
    archive(facts.cards, facts.names, facts.infiniband, facts.absent_cards, facts.names_left);
  else if constexpr (std::is_same_v<Message, SoftwareFacts>)
    archive(facts.rueda, facts.torch, facts.mpi, facts.devices, facts.folder_problem, facts.program_problem,
            facts.python, facts.python_torch, facts.python_rueda, facts.python_built, facts.python_problem);
  else if constexpr (std::is_same_v<Message, HostFacts>)
    archive(facts.memory, facts.cores, facts.processes, facts.network, facts.software, facts.problems);
  else if constexpr (std::is_same_v<Message, Examine>)
    archive(facts.host, facts.key, facts.hosts, facts.cards, facts.folder, facts.environment, facts.program);
  else if constexpr (std::is_same_v<Message, PeerCards>)
    archive(facts.host, facts.cards);
  else if constexpr (std::is_same_v<Message, ReachedCard>)
    archive(facts.host, facts.card, facts.peer_card, facts.problem);
  else if constexpr (std::is_same_v<Message, MeasureLink>)
    archive(facts.host, facts.card, facts.milliseconds);
  else
    archive(facts.host, facts.card, facts.round_trip, facts.sent, facts.received, facts.problem);
}

// Purpose: writes fields. A value for one call.
class FieldWriter {
 public:
  explicit FieldWriter(Writer& writer) : writer_(writer) {}

  template <class... Fields>
  void operator()(const Fields&... values) {
    (put(values), ...);
  }

 private:
  template <class Field>
  void put(const Field& value) {
    if constexpr (std::is_same_v<Field, bool>) {
      writer_.put(static_cast<std::uint8_t>(value));
    } else if constexpr (std::is_arithmetic_v<Field>) {
      writer_.put(value);
    } else if constexpr (std::is_same_v<Field, std::string>) {
      writer_.put_string(value.substr(0, kLongestText));
    } else if constexpr (std::is_same_v<Field, AuthenticationKey>) {
      for (const std::byte byte : value) writer_.put(byte);
    } else if constexpr (is_list<Field>) {
      const std::size_t count = std::min(value.size(), kLongestList);
      writer_.put_count(count);
      for (std::size_t i = 0; i < count; ++i) put(value[i]);
    } else {
      fields(*this, value);
    }
  }

  Writer& writer_;
};

// Purpose: reads fields within bounds. A value for one call.
class FieldReader {
 public:
  explicit FieldReader(Reader& reader) : reader_(reader) {}

  template <class... Fields>
  void operator()(Fields&... values) {
    (get(values), ...);
  }

 private:
  template <class Field>
  void get(Field& value) {
    if constexpr (std::is_same_v<Field, bool>) {
      const auto byte = reader_.get<std::uint8_t>();
      if (byte > 1) reader_.fail();
      value = byte == 1;
    } else if constexpr (std::is_same_v<Field, std::int32_t>) {
      value = reader_.get<std::int32_t>();
      if (value < 0) reader_.fail();
    } else if constexpr (std::is_arithmetic_v<Field>) {
      value = reader_.get<Field>();
    } else if constexpr (std::is_same_v<Field, std::string>) {
      value = reader_.get_string();
      if (value.size() > kLongestText) reader_.fail();
    } else if constexpr (std::is_same_v<Field, AuthenticationKey>) {
      for (std::byte& byte : value) byte = std::byte{reader_.get<std::uint8_t>()};
    } else if constexpr (is_list<Field>) {
      const std::size_t count = reader_.get_count(1);
      if (count > kLongestList) reader_.fail();
      for (std::size_t i = 0; i < count && reader_.ok(); ++i) get(value.emplace_back());
    } else {
      fields(*this, value);
    }
  }

  Reader& reader_;
};

// Purpose: cuts texts. A value for one call.
class TextCutter {
 public:
  explicit TextCutter(std::size_t most) : most_(most) {}

  template <class... Fields>
  void operator()(Fields&... values) {
    (cut(values), ...);
  }

 private:
  template <class Field>
  void cut(Field& value) {
    if constexpr (std::is_same_v<Field, std::string>) {
      value.resize(std::min(value.size(), most_));
    } else if constexpr (is_list<Field>) {
      for (auto& each : value) cut(each);
    } else if constexpr (!std::is_arithmetic_v<Field>) {
      fields(*this, value);
    }
  }

  const std::size_t most_;
};

std::size_t size_of(const HostFacts& facts) {
  Writer writer;
  write(writer, facts);
  return writer.take().size();
}

template <class Message>
void write_fields(Writer& writer, const Message& message) {
  FieldWriter archive(writer);
  fields(archive, message);
}
template <class Message>
void read_fields(Reader& reader, Message& message) {
  FieldReader archive(reader);
  fields(archive, message);
}

}  // namespace

void shorten(HostFacts& facts, std::size_t most) {
  constexpr std::size_t kText = 1000;
  TextCutter cutter(kText);
  fields(cutter, facts);
  while (size_of(facts) > most) {
    std::size_t longest = 1;
    const auto look = [&](const auto& list) { longest = std::max(longest, list.size()); };
    const auto halve = [&](auto& list) {
      if (list.size() == longest) list.resize(longest / 2);
    };
    const auto each = [&](const auto& act) {
      act(facts.processes.left_files), act(facts.network.names), act(facts.software.devices);
      act(facts.network.cards), act(facts.network.absent_cards), act(facts.problems);
      for (NameFacts& name : facts.network.names) act(name.addresses);
    };
    each(look);
    each(halve);
    if (longest == 1) return;
  }
}

void write(Writer& writer, const HostFacts& message) { write_fields(writer, message); }
void read(Reader& reader, HostFacts& message) { read_fields(reader, message); }
void write(Writer& writer, const Examine& message) { write_fields(writer, message); }
void read(Reader& reader, Examine& message) { read_fields(reader, message); }
void write(Writer& writer, const AskTime& message) { writer.put(message.round); }
void read(Reader& reader, AskTime& message) { FieldReader{reader}(message.round); }
void write(Writer& writer, const TellTime& message) {
  writer.put(message.round);
  writer.put(message.nanoseconds);
}
void read(Reader& reader, TellTime& message) { FieldReader{reader}(message.round, message.nanoseconds); }
void write(Writer& writer, const ReachHosts& message) { FieldWriter{writer}(message.peers); }
void read(Reader& reader, ReachHosts& message) { FieldReader{reader}(message.peers); }
void write(Writer& writer, const Reached& message) { FieldWriter{writer}(message.cards); }
void read(Reader& reader, Reached& message) { FieldReader{reader}(message.cards); }
void write(Writer& writer, const MeasureLink& message) { write_fields(writer, message); }
void read(Reader& reader, MeasureLink& message) {
  read_fields(reader, message);
  if (message.milliseconds > kMostMilliseconds) reader.fail();
}
void write(Writer& writer, const LinkMeasured& message) { write_fields(writer, message); }
void read(Reader& reader, LinkMeasured& message) { read_fields(reader, message); }

}  // namespace rueda::agents
