// SPDX-License-Identifier: Apache-2.0
#include "core/control/message.h"

namespace rueda {
namespace {

void write(Writer& writer, const Introduction& introduction) {
  writer.put(introduction.rank);
  writer.put_string(introduction.version);
  writer.put_string(introduction.host);
  writer.put(introduction.process_id);
  writer.put_count(introduction.settings.size());
  for (const std::string& setting : introduction.settings) writer.put_string(setting);
  writer.put_string(introduction.card);
}

std::string read_card(Reader& reader) {
  std::string card = reader.get_string();
  if (card.size() > kLongestCard) reader.fail();
  return card;
}

Introduction read_introduction(Reader& reader) {
  Introduction introduction;
  introduction.rank = reader.get<Rank>();
  introduction.version = reader.get_string();
  introduction.host = reader.get_string();
  introduction.process_id = reader.get<std::int64_t>();
  introduction.settings.resize(reader.get_count(sizeof(std::uint32_t)));
  for (std::string& setting : introduction.settings) setting = reader.get_string();
  introduction.card = read_card(reader);
  return introduction;
}

void write(Writer& writer, const Hello& hello) {
  writer.put_count(hello.ranks.size());
  for (const Introduction& introduction : hello.ranks) write(writer, introduction);
}

Hello read_hello(Reader& reader) {
  Hello hello;
  hello.ranks.resize(reader.get_count(sizeof(Rank)));
  for (Introduction& introduction : hello.ranks) introduction = read_introduction(reader);
  return hello;
}

void write(Writer& writer, const Welcome& welcome) {
  write(writer, welcome.status);
  writer.put_count(welcome.hosts.size());
  for (std::size_t i = 0; i < welcome.hosts.size(); ++i) {
    writer.put_string(welcome.hosts[i]);
    writer.put(welcome.process_ids[i]);
    writer.put_string(welcome.cards[i]);
  }
}

Welcome read_welcome(Reader& reader) {
  Welcome welcome;
  welcome.status = read_status(reader);
  const std::size_t count = reader.get_count(2 * sizeof(std::uint32_t) + sizeof(std::int64_t));
  for (std::size_t i = 0; i < count && reader.ok(); ++i) {
    welcome.hosts.push_back(reader.get_string());
    welcome.process_ids.push_back(reader.get<std::int64_t>());
    welcome.cards.push_back(read_card(reader));
  }
  return welcome;
}

void write(Writer& writer, const Report& report) {
  writer.put_count(report.tensors.size());
  for (const std::vector<Wish>& wishes : report.tensors) {
    writer.put_count(wishes.size());
    for (const Wish& wish : wishes) {
      write(writer, wish.request);
      write(writer, wish.ranks);
    }
  }
}

Report read_report(Reader& reader) {
  Report report;
  report.tensors.resize(reader.get_count(sizeof(std::uint32_t)));
  for (std::vector<Wish>& wishes : report.tensors) {
    wishes.resize(reader.get_count(sizeof(std::uint32_t)));
    for (Wish& wish : wishes) {
      wish.request = read_request(reader);
      wish.ranks = read_rank_set(reader);
      if (wish.ranks.empty() || wish.request.name != wishes.front().request.name) reader.fail();
    }
    if (wishes.empty()) reader.fail();
  }
  return report;
}

void write(Writer& writer, const Orders& orders) {
  writer.put(orders.end);
  writer.put_count(orders.plans.size());
  for (const Plan& plan : orders.plans) write(writer, plan);
}

Orders read_orders(Reader& reader) {
  Orders orders;
  orders.end = reader.get<std::uint8_t>() != 0;
  orders.plans.resize(reader.get_count(sizeof(std::uint64_t)));
  for (Plan& plan : orders.plans) plan = read_plan(reader);
  return orders;
}

void write(Writer& writer, const Departure& departure) { write(writer, departure.ranks); }
void write(Writer& writer, const Failure& failure) { write(writer, failure.status); }

}  // namespace

void write(Writer& writer, const Status& status) {
  writer.put(status.code);
  writer.put_string(status.message);
}

Status read_status(Reader& reader) {
  Status status;
  status.code = reader.get_enum(status_code_from);
  status.message = reader.get_string();
  return status;
}

Bytes encode(const Message& message) {
  Writer writer;
  writer.put(static_cast<std::uint8_t>(message.index()));
  std::visit([&](const auto& content) { write(writer, content); }, message);
  return writer.take();
}

std::optional<Message> decode(ConstBytes bytes) {
  Reader reader(bytes);
  std::optional<Message> message;
  switch (reader.get<std::uint8_t>()) {  // the order of Message's alternatives
    case 0: message = read_hello(reader); break;
    case 1: message = read_welcome(reader); break;
    case 2: message = read_report(reader); break;
    case 3: message = Departure{read_rank_set(reader)}; break;
    case 4: message = read_orders(reader); break;
    case 5: message = Failure{read_status(reader)}; break;
    default: reader.fail();
  }
  if (!reader.complete()) return std::nullopt;
  return message;
}

}  // namespace rueda
