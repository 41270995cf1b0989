// SPDX-License-Identifier: Apache-2.0
#include "launcher/page/page_access.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <utility>

#include "core/base/system/authentication.h"
#include "core/base/system/hex.h"

namespace rueda {
namespace {

std::string fresh_secret() {
  start_libsodium();
  std::array<std::byte, 16> bytes{};
  ::randombytes_buf(bytes.data(), bytes.size());
  return to_hex(bytes);
}

bool is_number_address(const std::string& name) {
  in6_addr address{};
  if (name.size() > 2 && name.front() == '[' && name.back() == ']')
    return ::inet_pton(AF_INET6, name.substr(1, name.size() - 2).c_str(), &address) == 1;
  return ::inet_pton(AF_INET, name.c_str(), &address) == 1;
}

// "name:port" without the port.
std::string_view without_port(std::string_view host) {
  const std::size_t colon = host.rfind(':');
  const bool has_port = colon != std::string_view::npos && colon + 1 < host.size() &&
                        std::ranges::all_of(host.substr(colon + 1),
                                            [](unsigned char letter) { return std::isdigit(letter) != 0; });
  return has_port ? host.substr(0, colon) : host;
}

bool are_equal(std::string_view text, const std::string& secret) {
  return text.size() == secret.size() && ::sodium_memcmp(text.data(), secret.data(), secret.size()) == 0;
}

}  // namespace

PageAccess::PageAccess(std::string host, int port, std::string machine)
    : host_(std::move(host)),
      port_(port),
      machine_(std::move(machine)),
      token_(fresh_secret()),
      cookie_secret_(fresh_secret()) {}

std::string PageAccess::url() const {
  const bool is_v6 = host_.find(':') != std::string::npos;
  const bool is_any = host_ == "0.0.0.0" || host_ == "::";
  const std::string name = is_any ? machine_ : is_v6 ? "[" + host_ + "]" : host_;
  return fmt::format("http://{}:{}/?token={}", name, port_, token_);
}

// Cookies of one host are the same for all its ports. Tunnels to jobs of several hosts may have one port.
std::string PageAccess::cookie_name() const {
  constexpr std::size_t kLetters = 8;
  return fmt::format("rueda-{}-{}", port_, cookie_secret_.substr(0, kLetters));
}

std::string PageAccess::cookie() const {
  return fmt::format("{}={}; Path=/; HttpOnly; SameSite=Strict", cookie_name(), cookie_secret_);
}

// A number cannot be pointed elsewhere. The port may be another one: of a tunnel of ssh.
bool PageAccess::is_own(std::string_view host) const {
  const std::string name(without_port(host));
  return name == "localhost" || name == host_ || name == machine_ || is_number_address(name);
}

PageAccess::Verdict PageAccess::judge(const Heads& heads) const {
  if (!is_own(heads.host)) return Verdict::wrong_origin;
  if ((heads.acts || !heads.origin.empty()) && heads.origin != "http://" + heads.host)
    return Verdict::wrong_origin;
  if (are_equal(heads.token, token_)) return Verdict::allowed;
  if (heads.acts) return Verdict::no_token;
  const std::string begin = cookie_name() + "=";
  for (std::string_view rest = heads.cookie; !rest.empty();) {
    const std::size_t end = std::min(rest.find(';'), rest.size());
    std::string_view one = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    while (one.starts_with(' ')) one.remove_prefix(1);
    if (one.starts_with(begin) && are_equal(one.substr(begin.size()), cookie_secret_))
      return Verdict::allowed;
  }
  return Verdict::no_token;
}

}  // namespace rueda
