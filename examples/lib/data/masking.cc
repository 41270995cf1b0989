// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/data/masking.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "examples/lib/data/batches.h"

namespace rueda::examples {
namespace {

constexpr std::uint64_t kDecision = 1ULL
                                    << 40;  // separates decisions at a position from the order of positions
constexpr std::uint64_t kSpecialTokens = 5;

// Another token than a special one, of the whole vocabulary.
std::int32_t random_token(const WordPieceTokenizer& tokenizer, std::uint64_t seed) {
  const std::uint64_t words = tokenizer.vocab_size();
  for (std::uint64_t attempt = 0;; ++attempt) {
    const auto id = static_cast<std::int32_t>(mix(seed, attempt) % words);
    if (is_maskable(id, tokenizer)) return id;
  }
}

std::int32_t hidden(std::int32_t id, const WordPieceTokenizer& tokenizer, std::uint64_t seed) {
  const std::uint64_t tenth = mix(seed, 0) % 10;
  if (tenth < 8) return tokenizer.mask_id();
  if (tenth == 8 && tokenizer.vocab_size() > kSpecialTokens) return random_token(tokenizer, mix(seed, 1));
  return id;
}

}  // namespace

bool is_maskable(std::int32_t id, const WordPieceTokenizer& tokenizer) {
  return id != tokenizer.cls_id() && id != tokenizer.sep_id() && id != tokenizer.pad_id() &&
         id != tokenizer.unknown_id() && id != tokenizer.mask_id();
}

std::size_t masked_count(std::size_t candidates, double share) {
  const auto wanted = std::llround(share * static_cast<double>(candidates));
  return std::min(candidates, static_cast<std::size_t>(std::max(wanted, 1LL)));
}

MaskedWindow mask(std::span<const std::int32_t> ids, const WordPieceTokenizer& tokenizer, std::uint64_t seed,
                  std::uint64_t sample, double share) {
  MaskedWindow masked{{ids.begin(), ids.end()}, std::vector<std::int32_t>(ids.size(), kNoLabel)};
  std::vector<std::size_t> candidates;
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (is_maskable(ids[i], tokenizer)) candidates.push_back(i);
  if (candidates.empty()) return masked;

  const std::uint64_t draw = mix(mix(seed, 0x6d61736bULL), sample);  // "mask": other uses of the seed differ
  const std::size_t count = masked_count(candidates.size(), share);
  for (std::size_t i = 0; i < count; ++i) {  // the first steps of a shuffle
    std::swap(candidates[i], candidates[i + mix(draw, i) % (candidates.size() - i)]);
    const std::size_t position = candidates[i];
    masked.labels[position] = ids[position];
    masked.input_ids[position] = hidden(ids[position], tokenizer, mix(draw, kDecision + position));
  }
  return masked;
}

LmBatch pad(std::span<const MaskedWindow> windows, std::int32_t pad_id) {
  LmBatch batch;
  batch.rows = static_cast<std::int64_t>(windows.size());
  for (const MaskedWindow& window : windows)
    batch.columns = std::max(batch.columns, static_cast<std::int64_t>(window.input_ids.size()));
  const auto cells = static_cast<std::size_t>(batch.rows * batch.columns);
  batch.input_ids.assign(cells, pad_id);
  batch.labels.assign(cells, kNoLabel);
  for (std::size_t row = 0; row < windows.size(); ++row) {
    const auto offset = static_cast<std::ptrdiff_t>(row) * batch.columns;
    std::ranges::copy(windows[row].input_ids, batch.input_ids.begin() + offset);
    std::ranges::copy(windows[row].labels, batch.labels.begin() + offset);
    batch.lengths.push_back(static_cast<std::int64_t>(windows[row].input_ids.size()));
  }
  return batch;
}

}  // namespace rueda::examples
