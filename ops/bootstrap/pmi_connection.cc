// SPDX-License-Identifier: Apache-2.0
#include "ops/bootstrap/pmi_connection.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <utility>

#include "core/base/system/pmi_line.h"
#include "ops/bootstrap/start_error.h"

namespace rueda {
namespace {

[[noreturn]] void blame_manager(const std::string& why) {
  cannot_start(
      fmt::format("the process manager behind PMI_FD {}. Use ruedarun, or RUEDA_BOOTSTRAP=mpi.", why));
}

constexpr int kAnswerMs = 10'000;
constexpr std::size_t kLongestLine = 1023;  // of PMI-1

std::optional<int> number_in(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  const std::string_view digits(text);
  int value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || value < 0) return std::nullopt;
  return value;
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
    if (!found_) blame_manager("gives no address under the key of rank 0");
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
  return PmiProcess{*descriptor, *rank, *size};
}

// Slurm ends its daemon where a process says version 1.2, so this one says 1.1.
PmiConnection::PmiConnection(const PmiProcess& process) : socket_(process.descriptor), process_(::getpid()) {
  ::fcntl(socket_.number(), F_SETFD, FD_CLOEXEC);
  answer("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init");
  space_ = pmi_field(answer("cmd=get_my_kvsname", "my_kvsname"), "kvsname");
  if (space_.empty()) blame_manager("names no space for keys");
}

// A process that ends inside of a barrier leaves the others there: the process manager ends them.
PmiConnection::~PmiConnection() {
  if (in_barrier_ || ::getpid() != process_) return;
  try {
    answer("cmd=finalize", "finalize_ack");
  } catch (const Error&) {  // it has gone already
  }
}

void PmiConnection::put(const std::string& key, const std::string& value) {
  answer(fmt::format("cmd=put kvsname={} key={} value={}", space_, key, value), "put_result");
}

void PmiConnection::enter_barrier() {
  if (in_barrier_) blame_manager("waits for processes that have not called init() for an earlier job");
  say("cmd=barrier_in");
  in_barrier_ = true;
}

bool PmiConnection::barrier_is_over() {
  const std::optional<std::string> out = line(0);
  if (!out) return false;
  if (pmi_field(*out, "cmd") != "barrier_out") blame_manager("ended a barrier by '" + *out + "'");
  in_barrier_ = false;
  return true;
}

std::string PmiConnection::get(const std::string& key) {
  return std::string(
      pmi_field(answer(fmt::format("cmd=get kvsname={} key={}", space_, key), "get_result"), "value"));
}

void PmiConnection::say(const std::string& command) {
  const std::string text = command + "\n";
  if (text.size() > kLongestLine)
    blame_manager(fmt::format("takes lines of {} bytes, not {}", kLongestLine, text.size()));
  if (::send(socket_.number(), text.data(), text.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(text.size()))
    blame_manager("has closed the connection");
}

std::string PmiConnection::answer(const std::string& command, std::string_view expected) {
  say(command);
  std::optional<std::string> heard = line(kAnswerMs);
  if (!heard) blame_manager(fmt::format("does not answer '{}' within {} s", command, kAnswerMs / 1000));
  const std::string_view code = pmi_field(*heard, "rc");
  if (pmi_field(*heard, "cmd") != expected || (!code.empty() && code != "0"))
    blame_manager(fmt::format("answered '{}' by '{}'", command, *heard));
  return std::move(*heard);
}

// One line without its end; nothing if none has come within that time.
std::optional<std::string> PmiConnection::line(int milliseconds) {
  while (true) {
    if (const std::size_t end = heard_.find('\n'); end != std::string::npos) {
      std::string whole = heard_.substr(0, end);
      heard_.erase(0, end + 1);
      return whole;
    }
    if (heard_.size() > kLongestLine) blame_manager("sends a line without end");
    pollfd wait{socket_.number(), POLLIN, 0};
    const int ready = ::poll(&wait, 1, milliseconds);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return std::nullopt;
    std::array<char, 4096> buffer{};
    const ssize_t count = ::recv(socket_.number(), buffer.data(), buffer.size(), 0);
    if (count <= 0) blame_manager("has closed the connection");
    heard_.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace rueda
