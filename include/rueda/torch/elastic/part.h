// SPDX-License-Identifier: Apache-2.0
// One object in the state of an elastic training.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "rueda/rueda.h"

// Training that goes on while ranks are lost and others join.
namespace rueda::elastic {

// Tells how an optimizer has stepped since the last commit.
enum class Stepping : std::uint8_t {
  none,   // the object is no optimizer
  alone,  // once, and no operation of this rank has ended since
  other,  // in any other way
};

// Purpose: keeps one object of a State, and can return it to its kept value. Derive from it for objects
// of a kind of your own. Used by the thread of the State, and lives as long.
class Part {
 public:
  Part() = default;
  virtual ~Part() = default;
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

  // Returns the kind of object, in words. All ranks have the same.
  virtual std::string describe() const = 0;
  // Keeps the object as it is now.
  virtual void save() = 0;
  // Returns the object to its kept value. May be called several times.
  virtual void restore() = 0;
  // Gives the object of rank `root` to all ranks of the scope. Collective.
  virtual void sync(Rank root, const Scope& scope) = 0;

  // Does the same as save(), but keeps only the versions of tensors that an optimizer changes.
  virtual void note() { save(); }
  // Returns true if such tensors have changed since note(). restore() cannot undo that.
  virtual bool is_ahead() const { return false; }
  // Tells how the object has stepped since save() or note().
  virtual Stepping stepping() const { return Stepping::none; }
  // Adapts the object to the present ranks.
  virtual void ranks_changed() {}

  // Returns true if each rank has a part of the object, so that every State::sync() divides it anew.
  virtual bool divides() const { return false; }
  // Returns the tensors that this Part alone keeps. Others leave them out.
  virtual std::vector<at::Tensor> owned() const { return {}; }
  // Leaves these tensors out from now on, if they belong to the object. A State calls it once, with the
  // tensors of all its other parts, before it calls anything else.
  virtual void leave_out(const std::vector<at::Tensor>&) {}
  // Throws the failure of a step that had to be completed before its commit.
  virtual void check() const {}
};

}  // namespace rueda::elastic
