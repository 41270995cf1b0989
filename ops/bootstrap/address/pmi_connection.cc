// SPDX-License-Identifier: Apache-2.0
#include "ops/bootstrap/address/pmi_connection.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "core/base/number.h"
#include "core/base/system/pmi_line.h"
#include "core/base/time.h"
#include "ops/bootstrap/address/start_error.h"

namespace rueda {
namespace {

constexpr int kAnswerMs = 10'000;
// Of PMI-1. Slurm's server of PMI-2 writes behind its memory where a value has some thousand bytes.
constexpr std::size_t kLongestMessage = 1023;

std::optional<int> number_in(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  const std::optional<int> value = number_from<int>(text);
  return value && *value >= 0 ? value : std::nullopt;
}

// Errors go into logs, and a value may hold the secret of the job.
std::string without_value(std::string_view text) {
  const std::size_t value = text.find("value=");
  return value == std::string_view::npos ? std::string(text)
                                         : fmt::format("{}value=...", text.substr(0, value));
}

// One job's.
class PmiAddress final : public RootAddress {
 public:
  explicit PmiAddress(std::shared_ptr<PmiConnection> connection)
      : connection_(std::move(connection)), key_(fmt::format("rueda-root-{}", connection_->next_job())) {}

  void publish(const TcpEndpoint& endpoint) override {
    connection_->put(key_, to_text(endpoint));
    connection_->enter_barrier();
  }
  bool settled() override {
    if (!over_) over_ = connection_->barrier_is_over();
    return over_;
  }
  std::optional<TcpEndpoint> look() override {
    if (found_) return found_;
    if (!std::exchange(entered_, true)) connection_->enter_barrier();
    if (!settled()) return std::nullopt;
    found_ = endpoint_from_text(connection_->get(key_));
    if (!found_) blame_process_manager("gives no address under the key of rank 0");
    return found_;
  }
  bool may_block() const override { return false; }
  std::string in_words() const override {
    return "the process manager (PMI), whose barrier waits until every process has called init()";
  }

 private:
  std::shared_ptr<PmiConnection> connection_;
  std::string key_;
  bool entered_ = false;
  bool over_ = false;
  std::optional<TcpEndpoint> found_;
};

}  // namespace

std::unique_ptr<RootAddress> address_by_pmi(std::shared_ptr<PmiConnection> connection) {
  return std::make_unique<PmiAddress>(std::move(connection));
}

std::optional<PmiProcess> pmi_process() {
  const std::optional<int> descriptor = number_in("PMI_FD"), rank = number_in("PMI_RANK"),
                           size = number_in("PMI_SIZE");
  struct stat file {};
  if (!descriptor || !rank || !size || *rank >= *size) return std::nullopt;
  if (::fstat(*descriptor, &file) != 0 || !S_ISSOCK(file.st_mode)) return std::nullopt;
  const char* job = std::getenv("PMI_JOBID");
  return PmiProcess{*descriptor, *rank, *size, job == nullptr ? "" : job};
}

PmiConnection::PmiConnection(const PmiProcess& process)
    : socket_(process.descriptor), process_(::getpid()), dialect_(dialect_of(process)) {
  ::fcntl(socket_.number(), F_SETFD, FD_CLOEXEC);
  introduce(process);
}

void PmiConnection::introduce(const PmiProcess& process) {
  std::string last = answer(dialect_->greeting());
  greeted_ = true;
  for (const PmiRequest& request : dialect_->introduction(process)) {
    last = answer(request);
    for (const auto& [name, number] : {std::pair("rank", process.rank), std::pair("size", process.size)}) {
      const std::string_view told = dialect_->field(last, name);
      if (!told.empty() && told != std::to_string(number))
        blame_process_manager(fmt::format("says {}={}, and the environment says {}", name, told, number));
    }
  }
  space_ = dialect_->field(last, dialect_->space_field());
  if (space_.empty()) blame_process_manager("names no space for keys");
}

// A process that ends inside of a barrier leaves the others there: the process manager ends them.
PmiConnection::~PmiConnection() {
  if (in_barrier_ || ::getpid() != process_) return;
  try {
    answer(dialect_->finalize());
  } catch (const Error&) {  // it has gone already
  }
}

void PmiConnection::put(const std::string& key, const std::string& value) {
  answer(dialect_->put(space_, key, value));
}

void PmiConnection::enter_barrier() {
  if (in_barrier_)
    blame_process_manager("waits for processes that have not called init() for an earlier job");
  say(dialect_->framed(dialect_->barrier().text));
  in_barrier_ = true;
}

bool PmiConnection::barrier_is_over() {
  const std::optional<std::string> out = message(0);
  if (!out) return false;
  const std::string_view code = dialect_->field(*out, "rc");
  if (dialect_->field(*out, "cmd") != dialect_->barrier().answer || (!code.empty() && code != "0"))
    blame_process_manager("ended a barrier by '" + *out + "'");
  in_barrier_ = false;
  return true;
}

std::string PmiConnection::get(const std::string& key) {
  return std::string(dialect_->field(answer(dialect_->get(space_, key)), "value"));
}

void PmiConnection::say(const std::string& bytes) {
  if (bytes.size() > kLongestMessage)
    blame_process_manager(fmt::format("takes messages of {} bytes, not {}", kLongestMessage, bytes.size()));
  if (::send(socket_.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(bytes.size()))
    blame_process_manager("has closed the connection");
}

std::string PmiConnection::answer(const PmiRequest& request) {
  say(greeted_ ? dialect_->framed(request.text) : request.text + "\n");
  std::optional<std::string> heard = message(kAnswerMs);
  if (!heard)
    blame_process_manager(
        fmt::format("does not answer '{}' within {} s", without_value(request.text), kAnswerMs / 1000));
  const auto field = [&](std::string_view name) {
    return greeted_ ? dialect_->field(*heard, name) : pmi_field(*heard, name);
  };
  const std::string_view code = field("rc");
  if (field("cmd") != request.answer || (!code.empty() && code != "0"))
    blame_process_manager(
        fmt::format("answered '{}' by '{}'", without_value(request.text), without_value(*heard)));
  return std::move(*heard);
}

// One message; nothing if none has come whole within that time.
std::optional<std::string> PmiConnection::message(int milliseconds) {
  for (const Time end = clock_now() + std::chrono::milliseconds(milliseconds);;) {
    std::optional<std::string> whole = greeted_ ? dialect_->take(heard_) : take_pmi_line(heard_);
    if (whole) return whole;
    pollfd wait{socket_.number(), POLLIN, 0};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - clock_now());
    const int ready = ::poll(&wait, 1, std::max(0, static_cast<int>(left.count())));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return std::nullopt;
    std::array<char, 4096> buffer{};
    const ssize_t count = ::recv(socket_.number(), buffer.data(), buffer.size(), 0);
    if (count <= 0) blame_process_manager("has closed the connection");
    heard_.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace rueda
