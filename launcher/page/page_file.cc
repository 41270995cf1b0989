// SPDX-License-Identifier: Apache-2.0
#include "launcher/page/page_file.h"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>

#include "core/base/files/whole_file.h"
#include "launcher/page/module_bundle.h"
#include "launcher/page/page_assets.h"
#include "launcher/system/json_text.h"

namespace rueda {
namespace {

constexpr std::string_view kStyle = "<link rel=\"stylesheet\" href=\"";
constexpr std::string_view kScript = "<script src=\"";
constexpr std::string_view kPolicyBehind = "<meta charset=\"utf-8\">";

std::string_view asset(std::string_view name) {
  const auto assets = page_assets();
  const auto found = std::ranges::find(assets, name, &PageAsset::name);
  if (found == assets.end()) throw std::logic_error(fmt::format("the page has no file {}", name));
  return found->text;
}

// As a Content-Security-Policy names a script or a style.
std::string hash_of(std::string_view text) {
  std::array<unsigned char, crypto_hash_sha256_BYTES> digest{};
  crypto_hash_sha256(digest.data(), reinterpret_cast<const unsigned char*>(text.data()), text.size());
  std::string words(sodium_base64_ENCODED_LEN(digest.size(), sodium_base64_VARIANT_ORIGINAL), '\0');
  sodium_bin2base64(words.data(), words.size(), digest.data(), digest.size(), sodium_base64_VARIANT_ORIGINAL);
  words.resize(words.find('\0'));
  return fmt::format("'sha256-{}'", words);
}

// Nothing inside can end the element that it stands in.
std::string data_text(const nlohmann::json& data) {
  const std::string text = json_text(data);
  std::string safe;
  safe.reserve(text.size());
  for (const char letter : text) {
    if (letter == '<')
      safe += "\\u003c";
    else
      safe += letter;
  }
  return safe;
}

// Purpose: puts the files that index.html names into it, and collects their hashes. Used by one thread, once.
class Inliner {
 public:
  // One line of index.html; empty where it belongs to the end.
  std::string line(std::string_view text) {
    const std::size_t begin = text.find_first_not_of(' ');
    const std::string_view tag = begin == std::string_view::npos ? "" : text.substr(begin);
    if (tag.starts_with(kStyle)) {
      const std::string style = fmt::format("\n{}", asset(name_in(tag, kStyle)));
      styles_ += " " + hash_of(style);
      return fmt::format("<style>{}</style>\n", style);
    }
    if (!tag.starts_with(kScript)) return fmt::format("{}\n", text);
    const std::string_view name = name_in(tag, kScript);
    if (tag.find("type=\"module\"") == std::string_view::npos)
      return script(fmt::format("\n{}", asset(name)));
    last_ += script(fmt::format("\n{}", module_bundle(page_assets(), name)));
    return "";
  }

  // What stands at the end of the body: the modules, which need its elements.
  const std::string& last() const { return last_; }

  std::string policy() const {
    return fmt::format(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src{}; "
        "style-src{}; img-src data:; base-uri 'none'; form-action 'none'\">\n",
        scripts_, styles_);
  }

 private:
  static std::string_view name_in(std::string_view tag, std::string_view before) {
    return tag.substr(before.size(), tag.find('"', before.size()) - before.size());
  }

  std::string script(const std::string& text) {
    scripts_ += " " + hash_of(text);
    return fmt::format("<script>{}</script>\n", text);
  }

  std::string scripts_, styles_;  // hashes
  std::string last_;
};

}  // namespace

std::string page_file(const nlohmann::json& data) {
  const std::string_view page = asset("index.html");
  Inliner inliner;
  std::string head, rest;  // up to the policy; behind it
  for (std::size_t at = 0; at < page.size();) {
    const std::size_t end = std::min(page.find('\n', at), page.size());
    const std::string_view text = page.substr(at, end - at);
    at = end + 1;
    if (text == "</body>")
      rest += fmt::format("<script id=\"stored\" type=\"application/json\">{}</script>\n{}", data_text(data),
                          inliner.last());
    rest += inliner.line(text);
    if (text.find(kPolicyBehind) != std::string_view::npos) head = std::exchange(rest, "");
  }
  return head + inliner.policy() + rest;
}

void write_page(const std::filesystem::path& path, const std::string& html) {
  WholeFile file(path);
  file.write(html);
  file.commit(false);
}

}  // namespace rueda
