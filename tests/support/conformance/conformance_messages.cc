// SPDX-License-Identifier: Apache-2.0
// Messages between two ranks.
#include <fmt/format.h>

#include <memory>
#include <stdexcept>
#include <string>

#include "rueda/rueda.h"
#include "tests/support/conformance/batch.h"
#include "tests/support/conformance/conformance.h"
#include "tests/support/conformance/conformance_values.h"
#include "tests/support/conformance/values.h"

namespace rueda {
namespace {

void add_send(ConformanceBatch& batch, Runtime& runtime, const std::string& name, Rank destination,
              std::shared_ptr<TestTensor> tensor) {
  const Rank own = runtime.topology().rank;
  fill(*tensor, own);
  batch.add([=, &runtime] { return send_async(name, tensor->view(), destination, runtime); },
            [=](const Handle&) {
              const DataType dtype = tensor->view().dtype;
              for (std::int64_t i = 0; i < tensor->elements(); ++i)
                expect_near(name, dtype, i, own_value(dtype, own, i), tensor->get(i));
            });
}

void add_receive(ConformanceBatch& batch, Runtime& runtime, const std::string& name, Rank source,
                 std::shared_ptr<TestTensor> tensor) {
  fill(*tensor, runtime.topology().rank);
  batch.add([=, &runtime] { return recv_async(name, tensor->view(), source, runtime); },
            [=](const Handle&) {
              const DataType dtype = tensor->view().dtype;
              for (std::int64_t i = 0; i < tensor->elements(); ++i)
                expect_near(name, dtype, i, own_value(dtype, source, i), tensor->get(i));
              if (!tensor->gaps_untouched()) throw std::runtime_error(name + ": wrote beside the tensor");
            });
}

}  // namespace

// Between all pairs of ranks at once, in both directions, under the same names.
void check_messages(Runtime& runtime) {
  const Rank own = runtime.topology().rank;
  ConformanceBatch batch(runtime);
  for (DataType dtype : data_types()) {
    for (Rank other = 0; other < runtime.topology().size; ++other) {
      if (other == own) continue;
      for (std::int64_t rows : {0, 3, 70, 9'000}) {
        const std::string name = fmt::format("{} of {} rows", to_string(dtype), rows);
        const Shape shape{rows, 3};
        add_send(batch, runtime, name, other, std::make_shared<TestTensor>(dtype, shape, rows == 3));
        add_receive(batch, runtime, name, other, std::make_shared<TestTensor>(dtype, shape, rows == 70));
      }
    }
  }
  batch.run();
}

}  // namespace rueda
