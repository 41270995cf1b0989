// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/published.h"

#include <cmath>

namespace rueda::report {
namespace {

// 228.3 p^-0.7392 minutes on p nodes: the fit through NVIDIA's MLPerf results for BERT.
PublishedScaling mlperf() {
  PublishedScaling curve{"MLPerf BERT, NVIDIA (fit by Cerebras)", "DGX-A100 nodes", 3, {}};
  for (double nodes = 1; nodes <= 256; nodes *= 2)
    curve.points.push_back({nodes, 228.3 * std::pow(nodes, -0.7392)});
  return curve;
}

}  // namespace

const std::vector<PublishedScaling>& published_scaling() {
  static const std::vector<PublishedScaling> curves = {
      {"BERT on SQuAD (Determined AI)", "K80 GPUs", 0, {{1, 399}, {2, 214}, {4, 118}, {8, 61}}},
      {"DistilBERT, one ring (Samsung SDS)", "machines of 8 V100", 1, {{1, 204}, {4, 70}, {8, 37}}},
      {"DistilBERT, several rings (Samsung SDS)", "machines of 8 V100", 2, {{1, 204}, {4, 66}, {8, 32}}},
      mlperf()};
  return curves;
}

const std::vector<PublishedSync>& published_sync() {
  // Determined AI's times are 214 minutes less the published saving.
  static const std::vector<PublishedSync> curves = {
      {"BERT on SQuAD (Determined AI)",
       "2 K80 GPUs",
       0,
       {{1, 214, 0}, {2, 214 - 14, 87.3}, {10, 214 - 24, 85}, {100, 214 - 31, 52.1}}},
      {"BERT on SQuAD, RAdam (Determined AI)", "2 K80 GPUs", 2, {{10, 0, 87.7}, {100, 0, 83.8}}},
      {"DistilBERT (Samsung SDS)", "8 V100 GPUs", 1, {{1, 402, 0}, {50, 204, 0}}}};
  return curves;
}

}  // namespace rueda::report
