// Compiled programs as the executor reads them: functrax/backends/executables/program.py without
// Python.
//
// The nested tuples of functrax/backends/executables/program_encoding.py go in; a Program comes
// out. Nothing here changes after decoding, so any number of threads may run one program.

#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace functrax::program {

// Whom a kernel that runs long asks now and then whether to end at once, which is so if the answer
// is not 0. Any thread that runs the kernel may ask.
struct Asked {
  int (*function)(Asked*);
};

// In front of the addresses of its arrays stands that of an Asked, or null.
using Kernel = void (*)(void** buffers, const std::int64_t* params, std::int64_t begin,
                        std::int64_t end);

enum class Kind { kInput, kOutput, kTemp, kConst };

struct Slot {
  Kind kind;
  int number;  // which input or output it is
  std::int64_t nbytes;
  std::int64_t offset;  // of a temporary in the arena, or -1
  int shares;           // the slot in whose memory it lies, or -1
  std::vector<Py_ssize_t> sizes;
  pybind11::object shape, dtype, value;
  PyObject* scalar_type;  // of NumPy scalars that can be read; null where they cannot
  void* constant;         // the memory of a constant
};

enum class Op { kLaunch, kHost, kCopy, kCond, kWhile, kScan };

struct Program;

// What both loops share.
struct Loop {
  std::vector<int> carry;      // slots of the first carry
  int consts;                  // how many of the instruction's inputs are the body's constants
  int first;                   // the number of the body's input where its carry begins
  std::vector<bool> in_place;  // whether the body updates a part of the carry where it is
  std::vector<std::int64_t> second;  // where the second place of a part is in the workspace, or -1
  std::int64_t cell;                 // where the condition or the index is in the workspace
  std::int64_t arena;                // where the arena of the programs inside is in the workspace
};

struct Instruction {
  Op op;
  std::vector<int> inputs, outputs;
  std::int64_t workspace;                          // where its part of the arena begins
  std::vector<std::unique_ptr<Program>> programs;  // branches; or a body, then a condition
  // Launch
  std::vector<int> operands;  // inputs, then outputs
  Kernel kernel = nullptr;
  std::vector<std::int64_t> params;
  std::vector<std::int64_t> begins;  // of each operand the bytes before what it takes; or empty
  std::int64_t units = 0, cost = 0, grain = 1;
  bool alone = false;    // on one thread, in whose caches is what it reads
  bool foreign = false;  // it calls a function of the user's own, which may fail (foreign.h)
  // HostCall
  pybind11::object function;
  pybind11::object device;  // asks a library for it on a GPU; or None
  // Loops and Cond
  Loop loop;
  std::vector<int> cond_consts;
  std::int64_t length = 0;
  bool reverse = false;
  bool is_unsigned = false;
};

// Where an instruction of a program that was put together comes from (program_join.h).
struct Origin {
  PyObject* source;  // of the part's program, not owned
  int part, program, instruction;
};

struct Program {
  std::string name;
  std::vector<Slot> slots;
  std::vector<int> inputs, outputs;          // slots
  std::vector<std::pair<int, int>> aliases;  // (output, input) which may share memory
  std::vector<Instruction> instructions;
  std::vector<int> runs;  // how many instructions threads share at once
  std::int64_t arena = 0;
  int number = 0;               // among all the programs of the executable
  PyObject* source = nullptr;   // of the outermost: what it was decoded from, not owned
  std::int64_t cost = 0;        // estimated nanoseconds without the GIL
  bool flushes = false;         // subnormal numbers to zero; as the outermost says
  bool calls_python = false;    // or what else may fail, itself or in a loop or branch
  std::vector<int> written;     // results that are outputs of their own
  std::vector<int> forwarded;   // results that are another slot as it is
  std::vector<int> sharing;     // slots that lie in the memory of another
  std::vector<Origin> origins;  // of its instructions, where it was put together
};

// Writes down which results are memory of their own, and which slots lie in others.
void classify(Program& program);

// Throws what pybind11 throws when the tuples are not what they should be.
std::unique_ptr<Program> decode(const pybind11::tuple& encoded);

}  // namespace functrax::program
