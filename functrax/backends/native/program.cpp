// See program.h.

#include "program.h"

#include <pybind11/stl.h>

#include <algorithm>

#include "buffer.h"
#include "numpy_arrays.h"
#include "targets/native.h"

namespace py = pybind11;

namespace functrax::program {
namespace {

// The type of NumPy scalars of a dtype, null for types that NumPy itself does not define.
PyObject* scalar_type(const py::object& dtype) {
  const bool builtin = dtype.attr("isbuiltin").cast<int>() == 1;
  return builtin ? dtype.attr("type").ptr() : nullptr;  // which lives as long as NumPy
}

Slot decode_slot(const py::tuple& t) {
  Slot slot{static_cast<Kind>(t[0].cast<int>()),
            t[1].cast<int>(),
            t[2].cast<std::int64_t>(),
            t[3].cast<std::int64_t>(),
            t[4].cast<int>(),
            t[5].cast<std::vector<Py_ssize_t>>(),
            t[5],
            t[6],
            t[7],
            nullptr,
            buffer::nowhere()};
  slot.scalar_type = scalar_type(slot.dtype);
  if (slot.kind == Kind::kConst && slot.nbytes > 0) {
    slot.constant = numpy_arrays::dense_data(
        slot.value.ptr(), slot.dtype.ptr(), static_cast<int>(slot.sizes.size()), slot.sizes.data());
    if (slot.constant == nullptr) throw py::value_error("a constant is not dense");
  }
  return slot;
}

Loop decode_loop(const py::tuple& t) {
  return {t[0].cast<std::vector<int>>(),
          t[1].cast<int>(),
          t[2].cast<int>(),
          t[3].cast<std::vector<bool>>(),
          t[4].cast<std::vector<std::int64_t>>(),
          t[5].cast<std::int64_t>(),
          t[6].cast<std::int64_t>()};
}

void decode_launch(Instruction& x, const py::tuple& rest) {
  x.kernel = reinterpret_cast<Kernel>(rest[0].cast<std::uintptr_t>());
  x.params = rest[1].cast<std::vector<std::int64_t>>();
  x.units = rest[2].cast<std::int64_t>();
  x.cost = rest[3].cast<std::int64_t>();
  x.grain = rest[4].cast<std::int64_t>();
  x.begins = rest[5].cast<std::vector<std::int64_t>>();
  x.foreign = rest[6].cast<bool>();
  x.operands = x.inputs;
  x.operands.insert(x.operands.end(), x.outputs.begin(), x.outputs.end());
}

void decode_rest(Instruction& x, const py::tuple& rest) {
  switch (x.op) {
    case Op::kLaunch:
      return decode_launch(x, rest);
    case Op::kHost:
      x.function = rest[0];
      x.device = rest[2];
      return;
    case Op::kCopy:
      return;
    case Op::kCond:
      x.is_unsigned = rest[0].cast<bool>();
      for (py::handle branch : rest[1]) x.programs.push_back(decode(branch.cast<py::tuple>()));
      return;
    default:
      x.loop = decode_loop(rest[0]);
      x.programs.push_back(decode(rest[1]));
  }
  if (x.op == Op::kWhile) {
    x.programs.push_back(decode(rest[2]));
    x.cond_consts = rest[3].cast<std::vector<int>>();
  } else {
    x.length = rest[2].cast<std::int64_t>();
    x.reverse = rest[3].cast<bool>();
  }
}

Instruction decode_instruction(const py::tuple& t) {
  Instruction x;
  x.op = static_cast<Op>(t[0].cast<int>());
  x.inputs = t[1].cast<std::vector<int>>();
  x.outputs = t[2].cast<std::vector<int>>();
  x.workspace = t[3].cast<std::int64_t>();
  decode_rest(x, t[4]);
  return x;
}

// Finds the launches that do less work than it takes to bring what they read, which one thread has
// just written, into the caches of the others.
void keep_on_one_thread(Program& p) {
  std::vector<std::int64_t> handed(p.slots.size(), 0);  // bytes that one thread wrote
  for (Instruction& x : p.instructions) {
    std::int64_t takes = targets::kWakeNs, reading = 0;
    if (x.op == Op::kLaunch) {
      takes = x.cost;
      // It may read what it writes.
      for (const int slot : x.operands) reading += handed[slot] / targets::kHandedBytes;
    } else if (x.op == Op::kCopy) {
      takes = p.slots[x.inputs[0]].nbytes / targets::kCopiedBytes;
    }
    x.alone = takes - reading < targets::kWakeNs;
    const std::int64_t most = x.alone ? takes * targets::kCachedBytes : 0;  // it may be a part
    for (const int slot : x.outputs) handed[slot] = std::min(p.slots[slot].nbytes, most);
  }
}

bool calls_python(const Instruction& x) {
  return x.op == Op::kHost || x.foreign ||
         std::any_of(x.programs.begin(), x.programs.end(),
                     [](const auto& inner) { return inner->calls_python; });
}

}  // namespace

std::unique_ptr<Program> decode(const py::tuple& t) {
  auto program = std::make_unique<Program>();
  Program& p = *program;
  p.name = t[0].cast<std::string>();
  for (py::handle slot : t[1]) p.slots.push_back(decode_slot(slot.cast<py::tuple>()));
  p.inputs = t[2].cast<std::vector<int>>();
  p.outputs = t[3].cast<std::vector<int>>();
  p.aliases = t[4].cast<std::vector<std::pair<int, int>>>();
  for (py::handle x : t[5]) p.instructions.push_back(decode_instruction(x.cast<py::tuple>()));
  p.arena = t[6].cast<std::int64_t>();
  p.cost = t[7].cast<std::int64_t>();
  p.number = t[8].cast<int>();
  p.runs = t[9].cast<std::vector<int>>();
  p.flushes = t[10].cast<bool>();
  keep_on_one_thread(p);
  p.calls_python = std::any_of(p.instructions.begin(), p.instructions.end(), calls_python);
  classify(p);
  return program;
}

void classify(Program& p) {
  for (int n = 0; n < static_cast<int>(p.outputs.size()); ++n) {
    const Slot& slot = p.slots[p.outputs[n]];
    const bool own = slot.kind == Kind::kOutput && slot.number == n;
    (own ? p.written : p.forwarded).push_back(n);
  }
  for (int n = 0; n < static_cast<int>(p.slots.size()); ++n) {
    if (p.slots[n].shares >= 0) p.sharing.push_back(n);
  }
}

}  // namespace functrax::program
