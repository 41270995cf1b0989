// SPDX-License-Identifier: Apache-2.0
#include "core/control/messages/control_message.h"

#include <algorithm>

#include "core/base/operation_traits.h"
#include "core/control/messages/rank_set_message.h"

namespace rueda {
namespace {

void write(Writer& writer, const Introduction& introduction) {
  writer.put(introduction.rank);
  writer.put_string(introduction.version);
  writer.put_string(introduction.host);
  writer.put(introduction.process_id);
  writer.put_count(introduction.settings.size());
  for (const std::string& setting : introduction.settings) writer.put_string(setting);
  writer.put_string(introduction.peer_info);
  writer.put_string(introduction.process_sets);
  writer.put(introduction.job);
  writer.put_string(introduction.relay);
  writer.put(introduction.local_rank);
  writer.put(introduction.steps);
}

std::string read_peer_info(Reader& reader) {
  std::string info = reader.get_string();
  if (info.size() > kLongestPeerInfo) reader.fail();
  return info;
}

Introduction read_introduction(Reader& reader) {
  Introduction introduction;
  introduction.rank = reader.get<Rank>();
  introduction.version = reader.get_string();
  introduction.host = reader.get_string();
  introduction.process_id = reader.get<std::int64_t>();
  introduction.settings = reader.get_list<std::string>(1, [](Reader& r) { return r.get_string(); });
  introduction.peer_info = read_peer_info(reader);
  introduction.process_sets = reader.get_string();
  introduction.job = reader.get<std::uint64_t>();
  introduction.relay = read_peer_info(reader);
  introduction.local_rank = reader.get<Rank>();
  introduction.steps = reader.get<std::uint64_t>();
  return introduction;
}

void write(Writer& writer, const Hello& hello) {
  writer.put_count(hello.ranks.size());
  for (const Introduction& introduction : hello.ranks) write(writer, introduction);
}

Hello read_hello(Reader& reader) { return {reader.get_list<Introduction>(sizeof(Rank), read_introduction)}; }

void write(Writer& writer, const Welcome& welcome) {
  write(writer, welcome.status);
  writer.put_count(welcome.hosts.size());
  for (std::size_t i = 0; i < welcome.hosts.size(); ++i) {
    writer.put_string(welcome.hosts[i]);
    writer.put(welcome.process_ids[i]);
    writer.put_string(welcome.peer_infos[i]);
  }
  writer.put_count(welcome.local_ranks.size());
  for (const Rank local_rank : welcome.local_ranks) writer.put(local_rank);
  writer.put(welcome.job);
  writer.put(welcome.steps);
}

Welcome read_welcome(Reader& reader) {
  Welcome welcome;
  welcome.status = read_status(reader);
  const std::size_t count = reader.get_count(2 + sizeof(std::int64_t));
  for (std::size_t i = 0; i < count && reader.ok(); ++i) {
    welcome.hosts.push_back(reader.get_string());
    welcome.process_ids.push_back(reader.get<std::int64_t>());
    welcome.peer_infos.push_back(read_peer_info(reader));
  }
  welcome.local_ranks = reader.get_list<Rank>(sizeof(Rank), [](Reader& r) { return r.get<Rank>(); });
  if (!welcome.local_ranks.empty() && welcome.local_ranks.size() != count) reader.fail();
  welcome.job = reader.get<std::uint64_t>();
  welcome.steps = reader.get<std::uint64_t>();
  return welcome;
}

void write(Writer& writer, const Referral& referral) {
  writer.put(referral.to);
  writer.put_string(referral.relay);
}

Referral read_referral(Reader& reader) {
  const auto to = reader.get<Rank>();
  if (to < 0) reader.fail();
  return {to, read_peer_info(reader)};
}

void write(Writer& writer, const Report& report) {
  writer.put(report.applied);
  write(writer, report.ids);
  writer.put_count(report.tensors.size());
  for (const std::vector<RequestOfRanks>& requests : report.tensors) {
    writer.put_count(requests.size());
    for (const RequestOfRanks& asked : requests) {
      write(writer, *asked.request);
      write(writer, asked.ranks);
    }
  }
  write(writer, report.departed);
  write(writer, report.rested);
}

RequestOfRanks read_request_of_ranks(Reader& reader) {
  auto request = std::make_shared<const Request>(read_request(reader));
  RequestOfRanks asked{std::move(request), read_rank_set(reader)};
  if (asked.ranks.empty() || !asked.request->follows.empty()) reader.fail();
  return asked;
}

// All of one key.
std::vector<RequestOfRanks> read_requests(Reader& reader) {
  std::vector<RequestOfRanks> requests = reader.get_list<RequestOfRanks>(1, read_request_of_ranks);
  const bool same_key = std::ranges::all_of(requests, [&](const RequestOfRanks& asked) {
    return key_of(*asked.request) == key_of(*requests.front().request);
  });
  if (requests.empty() || !same_key) reader.fail();
  return requests;
}

Report read_report(Reader& reader) {
  Report report;
  report.applied = reader.get<std::uint64_t>();
  report.ids = read_id_set(reader);
  report.tensors = reader.get_list<std::vector<RequestOfRanks>>(1, read_requests);
  report.departed = read_rank_set(reader);
  report.rested = read_rank_set(reader);
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
  orders.plans = reader.get_list<Plan>(sizeof(std::uint64_t), read_plan);
  return orders;
}

void write(Writer& writer, const Key& key) {
  writer.put(key.process_set);
  writer.put_string(key.name);
}

Key read_key(Reader& reader) {
  const auto process_set = reader.get<ProcessSetId>();
  return {process_set, reader.get_string()};
}

constexpr std::size_t kShortestKey = sizeof(ProcessSetId) + 1;

void write(Writer& writer, const Inquiry& inquiry) {
  writer.put(inquiry.number);
  writer.put(inquiry.timeout);
  writer.put_count(inquiry.operations.size());
  for (const Asked& asked : inquiry.operations) {
    write(writer, asked.key);
    writer.put(asked.plan);
  }
}

Inquiry read_inquiry(Reader& reader) {
  Inquiry inquiry;
  inquiry.number = reader.get<std::uint32_t>();
  inquiry.timeout = reader.get<double>();
  if (!(inquiry.timeout >= 0 && inquiry.timeout < 3600)) reader.fail();
  inquiry.operations = reader.get_list<Asked>(kShortestKey + sizeof(std::uint64_t), [](Reader& r) {
    Key key = read_key(r);
    return Asked{std::move(key), r.get<std::uint64_t>()};
  });
  return inquiry;
}

void write(Writer& writer, const Standing& standing) {
  write(writer, standing.waiting);
  write(writer, standing.missing);
  write(writer, standing.silent);
  writer.put_count(standing.words.size());
  for (const auto& [rank, words] : standing.words) {
    writer.put(rank);
    writer.put_string(words);
  }
  writer.put(standing.pauses);
}

Standing read_standing(Reader& reader) {
  Standing standing{read_rank_set(reader), read_rank_set(reader), read_rank_set(reader), {}, false};
  using Words = std::pair<Rank, std::string>;
  standing.words = reader.get_list<Words>(sizeof(Rank) + 1, [](Reader& r) {
    const Rank rank = r.get<Rank>();
    return Words{rank, r.get_string()};
  });
  standing.pauses = reader.get<std::uint8_t>() != 0;
  return standing;
}

void write(Writer& writer, const Answer& answer) {
  writer.put(answer.number);
  writer.put_count(answer.standings.size());
  for (const Standing& standing : answer.standings) write(writer, standing);
}

Answer read_answer(Reader& reader) {
  Answer answer;
  answer.number = reader.get<std::uint32_t>();
  answer.standings = reader.get_list<Standing>(4, read_standing);
  return answer;
}

void write(Writer& writer, const Missing& missing) {
  writer.put_count(missing.operations.size());
  for (const Key& key : missing.operations) write(writer, key);
  writer.put_string(missing.words);
}

Missing read_missing(Reader& reader) {
  std::vector<Key> operations = reader.get_list<Key>(kShortestKey, read_key);
  return {std::move(operations), reader.get_string()};
}

void write(Writer& writer, const Abort& abort) {
  writer.put(abort.plan);
  write(writer, abort.status);
}

Abort read_abort(Reader& reader) {
  Abort abort;
  abort.plan = reader.get<std::uint64_t>();
  abort.status = read_status(reader);
  if (abort.plan == 0 || abort.status.ok()) reader.fail();
  return abort;
}

void write(Writer& writer, const Stall& stall) {
  write(writer, *stall.request);
  writer.put(stall.plan);
}

Stall read_stall(Reader& reader) {
  auto request = std::make_shared<const Request>(read_request(reader));
  return {std::move(request), reader.get<std::uint64_t>()};
}

void write(Writer& writer, const Failure& failure) { write(writer, failure.status); }

Failure read_failure(Reader& reader) {
  Failure failure{read_status(reader)};
  if (failure.status.ok()) reader.fail();
  return failure;
}

// The index of an alternative in Message.
template <class Content, class... Contents>
constexpr std::uint8_t kind_of(std::type_identity<std::variant<Contents...>>) {
  std::uint8_t kind = 0;
  static_cast<void>(((std::is_same_v<Content, Contents> ? false : (++kind, true)) && ...));
  return kind;
}

template <class Content>
Bytes encoded(const Content& content) {
  Writer writer;
  writer.put(kind_of<Content>(std::type_identity<Message>()));
  write(writer, content);
  return writer.take();
}

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
  return std::visit([](const auto& content) { return encoded(content); }, message);
}

Bytes encode(const Report& report) { return encoded(report); }
Bytes encode(const Orders& orders) { return encoded(orders); }

std::optional<Message> decode(ConstBytes bytes) {
  Reader reader(bytes);
  std::optional<Message> message;
  switch (reader.get<std::uint8_t>()) {  // the order of Message's alternatives
    case 0: message = read_hello(reader); break;
    case 1: message = read_welcome(reader); break;
    case 2: message = read_report(reader); break;
    case 3: message = read_orders(reader); break;
    case 4: message = read_failure(reader); break;
    case 5: message = read_stall(reader); break;
    case 6: message = read_inquiry(reader); break;
    case 7: message = read_answer(reader); break;
    case 8: message = read_abort(reader); break;
    case 9: message = read_referral(reader); break;
    case 10: message = read_missing(reader); break;
    default: reader.fail();
  }
  if (!reader.complete()) return std::nullopt;
  return message;
}

}  // namespace rueda
