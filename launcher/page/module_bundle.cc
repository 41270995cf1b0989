// SPDX-License-Identifier: Apache-2.0
#include "launcher/page/module_bundle.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <regex>
#include <set>
#include <stdexcept>
#include <vector>

namespace rueda {
namespace {

// Purpose: writes modules in the order in which they need each other. Used by one thread, once.
class Bundle {
 public:
  explicit Bundle(std::span<const PageAsset> assets) : assets_(assets) {}

  void add(const std::string& name) {
    if (done_.contains(name)) return;
    if (!open_.insert(name).second)
      throw std::logic_error(fmt::format("the module {} needs itself, by way of others", name));
    std::string body;
    std::vector<std::string> exports;
    const std::string_view text = text_of(name);
    for (std::size_t at = 0; at < text.size();) {
      std::size_t end = std::min(text.find('\n', at), text.size());
      if (text.substr(at).starts_with("import ")) end = std::min(text.find(";\n", at) + 1, text.size());
      const std::string line(text.substr(at, end - at));
      at = end + 1;
      if (line.starts_with("import "))
        body += import_of(name, line);
      else if (line.starts_with("export "))
        body += export_of(name, line, exports);
      else
        body += line;
      body += '\n';
    }
    open_.erase(name);
    done_.insert(name);
    text_ += fmt::format("modules[\"{}\"] = (() => {{\n{}return {{ {} }};\n}})();\n", name, body,
                         fmt::join(exports, ", "));
  }

  std::string text() const {
    return fmt::format("(() => {{\n\"use strict\";\nconst modules = {{}};\n{}}})();\n", text_);
  }

 private:
  std::string_view text_of(const std::string& name) const {
    const auto found = std::ranges::find(assets_, name, &PageAsset::name);
    if (found == assets_.end()) throw std::logic_error(fmt::format("there is no module {}", name));
    return found->text;
  }

  std::string import_of(const std::string& name, const std::string& line) {
    static const std::regex form(R"re(import (\{[^}]*\}) from "\./([^"]+)";)re");
    std::smatch parts;
    if (!std::regex_match(line, parts, form)) throw std::logic_error(fmt::format("{}: '{}'", name, line));
    const std::string needed = parts[2];
    add(needed);
    return fmt::format("const {} = modules[\"{}\"];",
                       std::regex_replace(parts[1].str(), std::regex(" as "), ": "), needed);
  }

  static std::string export_of(const std::string& name, const std::string& line,
                               std::vector<std::string>& exports) {
    static const std::regex form(R"(export ((?:async )?(?:const|class|function\*?) (\w+)\b.*))");
    std::smatch parts;
    if (!std::regex_match(line, parts, form)) throw std::logic_error(fmt::format("{}: '{}'", name, line));
    exports.push_back(parts[2]);
    return parts[1];
  }

  std::span<const PageAsset> assets_;
  std::set<std::string> open_, done_;
  std::string text_;
};

}  // namespace

std::string module_bundle(std::span<const PageAsset> assets, std::string_view entry) {
  Bundle bundle(assets);
  bundle.add(std::string(entry));
  return bundle.text();
}

}  // namespace rueda
