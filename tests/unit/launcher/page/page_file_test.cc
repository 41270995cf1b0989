// SPDX-License-Identifier: Apache-2.0
// The page as one file: nothing is loaded, and nothing of the data becomes HTML.
#include "launcher/page/page_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "launcher/page/page_assets.h"
#include "tests/support/scratch_folder.h"

namespace rueda {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(PageFile, LoadsNothing) {
  const std::string html = page_file({{"kind", "runs"}});
  EXPECT_THAT(html, Not(HasSubstr("<link rel=\"stylesheet\"")));
  EXPECT_THAT(html, Not(HasSubstr("<script src=")));
  EXPECT_THAT(html, HasSubstr("default-src 'none'; script-src 'sha256-"));
  EXPECT_EQ(count(html, "'sha256-"), count(html, "<script>") + count(html, "<style>"));
  EXPECT_EQ(html, page_file({{"kind", "runs"}}));
  EXPECT_LT(html.find("Content-Security-Policy"), html.find("<style>"));
}

TEST(PageFile, NothingOfTheDataBecomesHtml) {
  const std::string hostile = "</script><script>alert(1)</script><!--\"'&\xff";
  const std::string html = page_file({{"kind", "runs"}, {"name", hostile}});
  EXPECT_THAT(html, Not(HasSubstr("alert(1)</script>")));
  const std::string begin = "<script id=\"stored\" type=\"application/json\">";
  const std::size_t at = html.find(begin) + begin.size();
  const json data = json::parse(html.substr(at, html.find("</script>", at) - at));
  EXPECT_EQ(data["name"], hostile.substr(0, hostile.size() - 1) + "\xef\xbf\xbd");
}

// They stand inside of elements that these would end.
TEST(PageFile, NoAssetEndsItsElement) {
  for (const PageAsset& asset : page_assets()) {
    if (asset.name == "index.html") continue;
    EXPECT_EQ(asset.text.find("</script"), std::string_view::npos) << asset.name;
    EXPECT_EQ(asset.text.find("</style"), std::string_view::npos) << asset.name;
    EXPECT_EQ(asset.text.find("<!--"), std::string_view::npos) << asset.name;
  }
}

TEST(PageFile, IsWrittenWholeOrNotAtAll) {
  const ScratchFolder scratch;
  const std::filesystem::path page = scratch.write("page.html", "old");
  write_page(page, "new");
  EXPECT_EQ(content_of(page), "new");
  const std::filesystem::path nowhere = scratch.path() / "none" / "page.html";
  EXPECT_EQ(error_message([&] { write_page(nowhere, "new"); }),
            "cannot write '" + nowhere.string() + "': No such file or directory");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(scratch.path()), {}), 1);
}

}  // namespace
}  // namespace rueda
