// SPDX-License-Identifier: Apache-2.0
#include "ops/bootstrap/address/pmi_dialect.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "core/base/number.h"
#include "core/base/system/pmi_line.h"
#include "ops/bootstrap/address/start_error.h"

namespace rueda {
namespace {

// Of an answer. No value of ours is longer than a line of PMI-1, which has 1023 bytes.
constexpr std::size_t kLongestAnswer = 4096;

// Purpose: lines of words. Slurm ends its daemon where a process says version 1.2, so this one says 1.1.
class Pmi1 final : public PmiDialect {
 public:
  std::string_view name() const override { return "PMI-1"; }
  PmiRequest greeting() const override {
    return {"cmd=init pmi_version=1 pmi_subversion=1", "response_to_init"};
  }
  std::vector<PmiRequest> introduction(const PmiProcess&) const override {
    return {{"cmd=get_my_kvsname", "my_kvsname"}};
  }
  std::string_view space_field() const override { return "kvsname"; }

  PmiRequest put(std::string_view space, std::string_view key, std::string_view value) const override {
    return {fmt::format("cmd=put kvsname={} key={} value={}", space, key, value), "put_result"};
  }
  PmiRequest get(std::string_view space, std::string_view key) const override {
    return {fmt::format("cmd=get kvsname={} key={}", space, key), "get_result"};
  }
  PmiRequest barrier() const override { return {"cmd=barrier_in", "barrier_out"}; }
  PmiRequest finalize() const override { return {"cmd=finalize", "finalize_ack"}; }

  std::string framed(const std::string& message) const override { return message + "\n"; }
  std::optional<std::string> take(std::string& heard) const override { return take_pmi_line(heard); }
  std::string_view field(std::string_view message, std::string_view name) const override {
    return pmi_field(message, name, ' ');
  }
};

// Purpose: fields that end with ';', behind their length in six characters. Hydra fills these with spaces on
// the left, Slurm on the right.
class Pmi2 final : public PmiDialect {
 public:
  std::string_view name() const override { return "PMI-2"; }
  PmiRequest greeting() const override {
    return {"cmd=init pmi_version=2 pmi_subversion=0", "response_to_init"};
  }
  std::vector<PmiRequest> introduction(const PmiProcess& process) const override {
    return {{fmt::format("cmd=fullinit;pmijobid={};pmirank={};threaded=FALSE;", process.job, process.rank),
             "fullinit-response"},
            {"cmd=job-getid;", "job-getid-response"}};
  }
  std::string_view space_field() const override { return "jobid"; }

  PmiRequest put(std::string_view, std::string_view key, std::string_view value) const override {
    return {fmt::format("cmd=kvs-put;key={};value={};", key, value), "kvs-put-response"};
  }
  PmiRequest get(std::string_view space, std::string_view key) const override {
    return {fmt::format("cmd=kvs-get;jobid={};srcid=-1;key={};", space, key), "kvs-get-response"};
  }
  PmiRequest barrier() const override { return {"cmd=kvs-fence;", "kvs-fence-response"}; }
  PmiRequest finalize() const override { return {"cmd=finalize;", "finalize-response"}; }

  std::string framed(const std::string& message) const override {
    return fmt::format("{:6}{}", message.size(), message);
  }
  std::optional<std::string> take(std::string& heard) const override {
    if (heard.size() < kLengthLetters) return std::nullopt;
    const std::size_t length = length_in(std::string_view(heard).substr(0, kLengthLetters));
    if (heard.size() - kLengthLetters < length) return std::nullopt;
    std::string message = heard.substr(kLengthLetters, length);
    heard.erase(0, kLengthLetters + length);
    return message;
  }
  std::string_view field(std::string_view message, std::string_view name) const override {
    return pmi_field(message, name, ';');
  }

 private:
  static constexpr std::size_t kLengthLetters = 6;

  static std::size_t length_in(std::string_view letters) {
    std::string_view digits = letters.substr(std::min(letters.find_first_not_of(' '), letters.size()));
    digits = digits.substr(0, digits.find_last_not_of(' ') + 1);
    const std::optional<std::size_t> length = number_from<std::size_t>(digits);
    if (!length || *length > kLongestAnswer)
      blame_process_manager(fmt::format("sends '{}' where the length of a message must be", letters));
    return *length;
  }
};

}  // namespace

void blame_process_manager(const std::string& why) {
  cannot_start(
      fmt::format("the process manager behind PMI_FD {}. Use ruedarun, or RUEDA_BOOTSTRAP=mpi.", why));
}

std::unique_ptr<const PmiDialect> dialect_of(const PmiProcess& process) {
  if (!process.job.empty()) return std::make_unique<Pmi2>();
  return std::make_unique<Pmi1>();
}

std::optional<std::string> take_pmi_line(std::string& heard) {
  const std::size_t end = heard.find('\n');
  if (end == std::string::npos && heard.size() <= kLongestAnswer) return std::nullopt;
  if (end == std::string::npos) blame_process_manager("sends a line without end");
  std::string line = heard.substr(0, end);
  heard.erase(0, end + 1);
  return line;
}

}  // namespace rueda
