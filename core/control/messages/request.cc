// SPDX-License-Identifier: Apache-2.0
#include "core/control/messages/request.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/operation_traits.h"
#include "core/control/messages/call_in_words.h"
#include "core/control/messages/message_pair.h"
#include "core/control/messages/rank_set_message.h"
#include "rueda/tensor_view.h"

namespace rueda {
namespace {

// The part of a shape that all ranks must have alike.
std::span<const std::int64_t> agreed_part(const Request& request) {
  std::span<const std::int64_t> shape = request.shape;
  return traits(request.operation).ragged_first_axis && !shape.empty() ? shape.subspan(1) : shape;
}

std::string words(std::span<const std::int64_t> agreed, const Request& request) {
  return agreed.size() == request.shape.size()
             ? to_string(agreed)
             : fmt::format("{} (its first dimension may differ)", to_string(request.shape));
}

// A field that most requests leave at its default does not travel then. Two bytes of flags name the others.
enum Part : std::uint16_t {
  scales = 1,
  root = 2,
  process_set = 4,
  group = 8,
  members = 16,
  fixed_order = 32,
  compression = 64,
  measure = 128,
  on_device = 256,
  capture = 512,
  elsewhere = 1024,
  signature = 2048
};

std::uint16_t parts_of(const Request& request) {
  std::uint16_t parts = 0;
  if (request.prescale_factor != 1.0 || request.postscale_factor != 1.0) parts |= Part::scales;
  if (request.root != 0) parts |= Part::root;
  if (request.process_set != kWorld) parts |= Part::process_set;
  if (!request.others.empty() || !request.follows.empty()) parts |= Part::group;
  if (!request.members.empty()) parts |= Part::members;
  if (request.reduction_order == ReductionOrder::fixed) parts |= Part::fixed_order;
  if (request.compression != Compression::none) parts |= Part::compression;
  if (request.measure) parts |= Part::measure;
  if (request.device != DeviceKind::host) parts |= Part::on_device;
  if (request.capture != 0) parts |= Part::capture;
  if (request.elsewhere) parts |= Part::elsewhere;
  if (request.signature != 0) parts |= Part::signature;
  return parts;
}

std::string graph_words(std::uint32_t capture) {
  return capture == 0 ? "none (it was not captured)" : fmt::format("{}", capture);
}

// "broadcast of float32 [4]".
std::string operation_in_words(const Request& request) {
  const std::string operation(to_string(request.operation));
  if (!traits(request.operation).moves_data || request.operation == Operation::barrier) return operation;
  return fmt::format("{} of {} {}", operation, to_string(request.dtype), to_string(request.shape));
}

Difference difference_alone(const Request& a, const Request& b) {
  if (a.operation != b.operation) return {"operation", operation_in_words(a), operation_in_words(b)};
  if (a.dtype != b.dtype) return {"dtype", std::string(to_string(a.dtype)), std::string(to_string(b.dtype))};
  auto agreed_a = agreed_part(a), agreed_b = agreed_part(b);
  if (a.shape.size() != b.shape.size() || !std::ranges::equal(agreed_a, agreed_b)) {
    return {"shape", words(agreed_a, a), words(agreed_b, b)};
  }
  if (a.reduce_op != b.reduce_op) {
    return {"reduce op", std::string(to_string(a.reduce_op)), std::string(to_string(b.reduce_op))};
  }
  // The ranks of a join differ by nature: it carries the last of them.
  if (a.operation != Operation::join && a.root != b.root)
    return {"root rank", fmt::format("{}", a.root), fmt::format("{}", b.root)};
  if (a.prescale_factor != b.prescale_factor) {
    return {"prescale factor", fmt::format("{}", a.prescale_factor), fmt::format("{}", b.prescale_factor)};
  }
  if (a.postscale_factor != b.postscale_factor) {
    return {"postscale factor", fmt::format("{}", a.postscale_factor), fmt::format("{}", b.postscale_factor)};
  }
  if (a.reduction_order != b.reduction_order) {
    return {"reduction order", std::string(to_string(a.reduction_order)),
            std::string(to_string(b.reduction_order))};
  }
  if (a.compression != b.compression) {
    return {"compression", std::string(to_string(a.compression)), std::string(to_string(b.compression))};
  }
  if (a.compression_share != b.compression_share) {
    return {"compression share", fmt::format("{}", a.compression_share),
            fmt::format("{}", b.compression_share)};
  }
  if (a.device != b.device)
    return {"device", std::string(to_string(a.device)), std::string(to_string(b.device))};
  if (a.capture != b.capture)
    return {"number of the graph that it is captured into", graph_words(a.capture), graph_words(b.capture)};
  if (((a.signature ^ b.signature) & ~kSignatureNotes) != 0)
    return {"signature", fmt::format("{:x}", a.signature), fmt::format("{:x}", b.signature)};
  if (a.measure != b.measure) return {"measure", fmt::format("{}", a.measure), fmt::format("{}", b.measure)};
  if (a.members != b.members) return {"members", to_string(a.members), to_string(b.members)};
  if (a.follows != b.follows) {
    return {"first of its group", fmt::format("'{}'", a.follows), fmt::format("'{}'", b.follows)};
  }
  return {};
}

Difference difference_of_others(const Request& a, const Request& b) {
  if (a.others.size() != b.others.size()) {
    return {"number of tensors in its group", fmt::format("{}", a.others.size() + 1),
            fmt::format("{}", b.others.size() + 1)};
  }
  for (std::size_t i = 0; i < a.others.size(); ++i) {
    const std::string &name = a.others[i].name, &other_name = b.others[i].name;
    if (name != other_name)
      return {"names in its group", fmt::format("'{}'", name), fmt::format("'{}'", other_name)};
    Difference other = difference_alone(a.others[i], b.others[i]);
    if (other.field.empty()) continue;
    other.field += fmt::format(" of '{}' in its group", name);
    return other;
  }
  return {};
}

// `grouped`: what it has to do with a group comes next.
Request read_alone(Reader& reader, bool& grouped) {
  Request request;
  const auto parts = reader.get<std::uint16_t>();
  request.name = reader.get_string();
  request.operation = reader.get_enum(operation_from);
  request.dtype = reader.get_enum(data_type_from);
  request.shape = reader.get_list<std::int64_t>(1, [](Reader& r) { return r.get_size(); });
  request.reduce_op = reader.get_enum(reduce_op_from);
  if ((parts & Part::scales) != 0) {
    request.prescale_factor = reader.get<double>();
    request.postscale_factor = reader.get<double>();
  }
  if ((parts & Part::root) != 0) request.root = reader.get<Rank>();
  if ((parts & Part::process_set) != 0) request.process_set = reader.get<ProcessSetId>();
  if ((parts & Part::members) != 0) request.members = read_rank_set(reader);
  if ((parts & Part::on_device) != 0) request.device = reader.get_enum(device_kind_from);
  if ((parts & Part::capture) != 0) request.capture = reader.get<std::uint32_t>();
  if (request.capture != 0 && request.device == DeviceKind::host) reader.fail();
  request.elsewhere = (parts & Part::elsewhere) != 0;
  if (request.elsewhere && !may_use_window(request)) reader.fail();
  if ((parts & Part::signature) != 0) request.signature = reader.get<std::uint64_t>();
  if ((parts & Part::compression) != 0) request.compression = reader.get_enum(compression_from);
  if (request.compression == Compression::topk) {
    request.compression_share = reader.get<double>();
    if (!is_share(request.compression_share) ||
        !can_send_a_share(request.operation, request.dtype, request.reduce_op))
      reader.fail();
  }
  if (!can_reduce(request.operation, request.dtype, request.reduce_op)) reader.fail();
  if ((parts & Part::fixed_order) != 0) request.reduction_order = ReductionOrder::fixed;
  request.measure = (parts & Part::measure) != 0;
  if (request.measure && !can_measure(request.operation, request.dtype)) reader.fail();
  grouped = (parts & Part::group) != 0;
  if ((parts & ~Part::group) != parts_of(request) || !checked_byte_count(request.shape, request.dtype))
    reader.fail();
  return request;
}

}  // namespace

Difference difference(const Request& a, const Request& b) {
  Difference own = difference_alone(a, b);
  return own.field.empty() ? difference_of_others(a, b) : own;
}

std::string title(const Request& request) {
  std::string words = fmt::format("{} '{}'", to_string(request.operation), request.name);
  if (const std::optional<MessagePair> pair = MessagePair::of(request.process_set)) {
    words += fmt::format(" from rank {} to rank {}", pair->source, pair->destination);
  } else if (request.process_set != kWorld) {
    words += fmt::format(" in process set {}", request.process_set);
  }
  return words;
}

std::string title_of_all(const Request& request) {
  if (request.others.empty()) return title(request);
  return fmt::format("{} and the {} others of its group", title(request), request.others.size());
}

bool precedes_in_group(const Request& a, const Request& b) {
  return a.name.size() != b.name.size() ? a.name.size() < b.name.size() : a.name < b.name;
}

bool may_use_window(const Request& request) {
  return request.operation == Operation::allreduce && request.device != DeviceKind::host;
}

bool any_elsewhere(const Request& request) {
  return request.elsewhere || std::ranges::any_of(request.others, &Request::elsewhere);
}

std::size_t row_bytes(const Request& request) {
  return static_cast<std::size_t>(row_element_count(request.shape)) * size_of(request.dtype);
}

std::int64_t bytes_of(const Request& request) {
  return element_count(request.shape) * static_cast<std::int64_t>(size_of(request.dtype));
}

bool compatible(const Request& a, const Request& b) {
  return &a == &b || a == b || difference(a, b).field.empty();
}

namespace {

void write_alone(Writer& writer, const Request& request) {
  const std::uint16_t parts = parts_of(request);
  writer.put(parts);
  writer.put_string(request.name);
  writer.put(request.operation);
  writer.put(request.dtype);
  writer.put_count(request.shape.size());
  for (std::int64_t extent : request.shape) writer.put_size(static_cast<std::uint64_t>(extent));
  writer.put(request.reduce_op);
  if ((parts & Part::scales) != 0) {
    writer.put(request.prescale_factor);
    writer.put(request.postscale_factor);
  }
  if ((parts & Part::root) != 0) writer.put(request.root);
  if ((parts & Part::process_set) != 0) writer.put(request.process_set);
  if ((parts & Part::members) != 0) write(writer, request.members);
  if ((parts & Part::on_device) != 0) writer.put(request.device);
  if ((parts & Part::capture) != 0) writer.put(request.capture);
  if ((parts & Part::signature) != 0) writer.put(request.signature);
  if ((parts & Part::compression) != 0) writer.put(request.compression);
  if (request.compression == Compression::topk) writer.put(request.compression_share);
}

}  // namespace

void write(Writer& writer, const Request& request) {
  write_alone(writer, request);
  if (request.others.empty() && request.follows.empty()) return;
  writer.put_count(request.others.size());
  for (const Request& other : request.others) write_alone(writer, other);
  if (request.others.empty()) writer.put_string(request.follows);
}

Request read_request(Reader& reader) {
  constexpr std::size_t kLeast = 7;  // bytes of one
  bool grouped = false;
  Request request = read_alone(reader, grouped);
  if (!grouped || !reader.ok()) return request;
  const Request* last = &request;
  const std::size_t count = reader.get_count(kLeast);
  request.others.reserve(count);  // `last` stays where it is
  for (std::size_t i = 0; i < count && reader.ok(); ++i) {
    bool follows = false;
    Request& other = request.others.emplace_back(read_alone(reader, follows));
    other.follows = request.name;
    const bool fits = other.process_set == request.process_set && traits(other.operation).moves_data;
    if (!follows || !fits || !precedes_in_group(*last, other)) reader.fail();
    last = &other;
  }
  if (count == 0) request.follows = reader.get_string();
  if (!traits(request.operation).moves_data || (count == 0 && request.follows.empty())) reader.fail();
  return request;
}

}  // namespace rueda
