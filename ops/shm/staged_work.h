// SPDX-License-Identifier: Apache-2.0
// The passage of an operation's data through the shared memory of its ranks, chunk by chunk.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/control/messages/plan.h"
#include "core/engine/work.h"
#include "ops/buffers/inline_vectors.h"
#include "ops/shm/peer_group.h"
#include "ops/shm/store_policy.h"

namespace rueda {

// Purpose: one Plan's passage through an area. Each rank packs a chunk into a buffer of its own area and says
// `written`; when all have, each takes its part of the chunk out of the buffers of all, or changes them, and
// says `taken`; when all have, each may read the outcome in its own buffer, which is free then. Several
// buffers, so that nobody waits while there is something to do. Owned by RunningWorks.
//
// In a wide area what a rank has taken goes on a journey, to other hosts: it says `taken` when that has come
// back and stands in the buffers of all. Several chunks travel at a time; they are finished in their order.
//
// A rank whose tensors lie where all can reach them may `offer` that, before it packs. When all have, nobody
// packs: each takes its part in place, and is through when all have taken theirs. Who sees that another has
// packed packs too. In a wide area parts that were taken in place travel too; an offer lies beside the
// buffers there, which whoever carries something may use before others have read the offer.
//
// `written` and `taken` are the Plan's number * 2^24 + a count, `left` is the Plan's number; each
// is written by its rank alone and only grows. `written` counts an offer as 1, and c chunks as c + 1; `taken`
// counts chunks, and what was taken in place as 1. Who comes to the end of a Plan has seen that all have
// taken everything: nobody reads or writes its buffers any more, nor waits for words of its that a later Plan
// does not say as well, so its next one may begin at once. Who abandons a Plan says so by a count of kVoid,
// which whoever waits for it sees; it then leaves at once: its tensors are its own. What others still do in
// its buffers ends before they leave, and kVoid is to stay until all have seen it: so this rank's next Plan
// in the area begins when all members have left this one. After an offer it stays until all others have taken
// or abandoned: they may be in its tensors.
//
// Bells: `written`, `taken` and kVoid ring all members; `left` rings those that wait for it and have said so
// (`wanted`, then one more look; who leaves stores `left`, then looks at `wanted`; all seq_cst).
class StagedWork : public Work {
 public:
  StagedWork(std::uint64_t plan, const WorkPlace& place);
  Step step() final;
  void abandon() final { abandoned_ = true; }
  std::string_view phase() const final;

  // The most that counts can say.
  static constexpr std::uint64_t kMostChunks = (std::uint64_t{1} << 24) - 3;
  static constexpr std::size_t kOfferBytes = SegmentContents::kOfferBytes;
  // Bytes of a chunk when a Plan asks for `wanted`: whole lines of cache, so that parts of different ranks
  // share none.
  static std::size_t chunk_bytes(std::int64_t wanted);

 protected:
  static constexpr std::size_t kLine = 64;

  // Before anything is shared; called again until it says false. May throw WorkFailure.
  virtual bool prepare() = 0;
  // What the others need to find this rank's tensors in shared memory: how many bytes it has, kOfferBytes at
  // most and as many on all members that offer, or 0 where they do not lie there.
  virtual std::size_t offer_bytes() const { return 0; }
  virtual void offer(std::byte* /*room*/) const {}
  // When all have offered: a piece of this rank's part, of the tensors of all; called again until it says
  // done. May throw WorkFailure.
  virtual Step take_in_place(std::span<std::byte* const> /*offers*/) { return Step::done; }
  // Whether the next chunk can be packed: what it takes may have to be computed first, in steps, out of
  // chunks that come before.
  enum class Ready { yes, working, waiting };
  virtual Ready ready(std::size_t) { return Ready::yes; }
  // This rank's part of a chunk, into a buffer of its own.
  virtual void pack(std::size_t chunk, std::byte* buffer) = 0;
  // When all have packed it: out of, or into, the buffers of all, in the order of ranks. May throw
  // WorkFailure.
  virtual void take(std::size_t chunk, std::span<std::byte* const> buffers) = 0;
  // Of journeys. Moves those that are under way; whether anything moved. May throw WorkFailure.
  virtual bool travel() { return false; }
  // Whether a chunk that was taken has come back; if so `finish` puts what has come into the buffers of all.
  virtual bool back(std::size_t) { return true; }
  virtual void finish(std::size_t /*chunk*/, std::span<std::byte* const> /*buffers*/) {}
  // Whether all know enough to run the journeys out, which is what an abandoned Work does; until then it goes
  // on.
  virtual bool can_run_out() const { return true; }
  // Called again until it says done.
  virtual Step run_out() { return Step::done; }
  virtual std::string_view journey() const { return {}; }  // as phase() says it
  // When all have taken it, out of this rank's own buffer.
  virtual void unpack(std::size_t chunk, const std::byte* buffer) = 0;
  // When all is over here; called again until it says false.
  virtual bool put_in_places() = 0;
  // That pack and take, or take_in_place, have gone through: what their time is told by. 0: it tells nothing.
  virtual std::size_t bytes_moved() const { return 0; }
  // Whether a chunk is nothing but bytes that move.
  virtual bool timed(std::size_t /*chunk*/) const { return true; }

  // How many there are; the same on all ranks. May grow while chunk 0 is taken, or unpacked.
  void set_chunks(std::size_t chunks) { chunks_ = chunks; }
  std::size_t chunks() const { return chunks_; }
  bool abandoned() const { return abandoned_; }
  // Known once all ranks go in place, or not.
  TimedStores& stores() { return stores_; }
  std::size_t buffer_count() const { return buffer_count_; }  // chunks that may be under way
  std::byte* own_buffer(std::size_t chunk) { return buffer(crew_.place, chunk); }
  std::size_t place() const { return crew_.place; }  // of this rank among the members
  std::size_t members() const { return crew_.size(); }
  InlineVectors& lists() { return lists_; }  // for those who derive from it

 private:
  using Progress = SegmentContents::Progress;
  using Word = std::atomic<std::uint64_t> Progress::*;
  static constexpr std::uint64_t kOffered = 1;
  static constexpr std::uint64_t kVoid = kMostChunks + 2;

  enum class Stage { before, offered, in_place, staged };

  Progress& progress(const PeerGroup& crew, std::size_t member) const;
  Progress& progress(std::size_t member) const { return progress(crew_, member); }
  Progress& own() const { return progress(crew_.place); }
  std::byte* buffer(std::size_t member, std::size_t chunk) const;
  std::byte* offer_of(std::size_t member, std::size_t bytes) const;
  bool gives_up() const { return abandoned_ && can_run_out(); }
  void begin_stage(Stage stage);
  template <class Loops>
  void run(std::size_t chunk, Loops loops);
  bool area_is_free();
  bool all_left();
  bool all_have(Word word, std::uint64_t count, std::size_t& known);
  void say(Word word, std::uint64_t count);
  bool decide();
  Step step_in_place();
  bool pack_one();
  bool take_one();
  bool finish_some();
  bool unpack_one();
  void find_buffers(std::size_t chunk);
  Step give_up();
  Step leave(Step how);

  const std::uint64_t plan_;
  const PeerGroup& crew_;
  const std::size_t area_;
  const bool travels_;  // a wide area
  LastUse& use_;
  const LastUse last_;              // before this one
  const std::size_t buffer_count_;  // a power of 2
  InlineVectors lists_;
  InlineVector<std::byte*> buffers_;  // of all members
  std::size_t left_ = 0;              // of the last Plan's members
  std::size_t know_written_ = 0;      // members that have
  std::size_t know_taken_ = 0;
  std::size_t chunks_ = 0;
  std::size_t packed_ = 0;  // chunks
  std::size_t begun_ = 0;   // taken here
  std::size_t taken_ = 0;   // of them, said so
  std::size_t unpacked_ = 0;
  Stage stage_ = Stage::before;
  StorePolicies* const choices_;
  TimedStores stores_;
  bool prepared_ = false;
  bool took_in_place_ = false;
  bool abandoned_ = false;
  bool said_void_ = false;
};

}  // namespace rueda
