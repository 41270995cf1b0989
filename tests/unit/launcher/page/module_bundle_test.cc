// SPDX-License-Identifier: Apache-2.0
// Modules become one script. Browsers run it in tests/python.
#include "launcher/page/module_bundle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace rueda {
namespace {

using testing::HasSubstr;

PageAsset module(std::string_view name, std::string_view text) { return {name, "text/javascript", text}; }

TEST(ModuleBundle, NeedsComeFirstAndOnce) {
  const std::vector<PageAsset> assets = {
      module("a.js", "import { b as c } from \"./b.js\";\nimport {\n  d,\n} from \"./d.js\";\nc(d);\n"),
      module("b.js",
             "import { d } from \"./d.js\";\nconst own = 1;\nexport function b() {\n  return own + d;\n}\n"),
      module("d.js", "export const d = 2;\nexport class E {\n}\n")};
  EXPECT_EQ(module_bundle(assets, "a.js"), R"((() => {
"use strict";
const modules = {};
modules["d.js"] = (() => {
const d = 2;
class E {
}
return { d, E };
})();
modules["b.js"] = (() => {
const { d } = modules["d.js"];
const own = 1;
function b() {
  return own + d;
}
return { b };
})();
modules["a.js"] = (() => {
const { b: c } = modules["b.js"];
const {
  d,
} = modules["d.js"];
c(d);
return {  };
})();
})();
)");
}

TEST(ModuleBundle, OtherFormsAreRefused) {
  const auto refuses = [](const std::vector<PageAsset>& assets) {
    EXPECT_THROW(module_bundle(assets, "a.js"), std::logic_error) << assets[0].text;
  };
  refuses({module("b.js", "")});
  refuses({module("a.js", "import b from \"./b.js\";\n"), module("b.js", "")});
  refuses({module("a.js", "import * as b from \"./b.js\";\n"), module("b.js", "")});
  refuses({module("a.js", "import { b } from \"./none.js\";\n")});
  refuses({module("a.js", "export default 1;\n")});
  refuses(
      {module("a.js", "import { b } from \"./b.js\";\n"), module("b.js", "import { a } from \"./a.js\";\n")});
}

TEST(ModuleBundle, HoldsThePage) {
  const std::string script = module_bundle(page_assets(), "page.js");
  EXPECT_THAT(script, HasSubstr("modules[\"task_stream.js\"] = "));
  EXPECT_EQ(script.find("\nimport "), std::string::npos);
  EXPECT_EQ(script.find("\nexport "), std::string::npos);
}

}  // namespace
}  // namespace rueda
