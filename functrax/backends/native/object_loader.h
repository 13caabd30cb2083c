// Machine code from an object file, without a linker: what a warm disk cache needs to run a kernel.
//
// What enters: a relocatable ELF64 object as LLVM writes it for one kernel.  What leaves: an Image,
// its code and constants laid out with all relocations applied, and a Code, that image in memory
// which may be executed.  An image has no addresses in it (every relocation is relative), so it may
// lie anywhere.  A function of a library that the object calls may lie farther away than a relative
// call reaches: the call goes to a stub behind the code, which jumps to an address in a table
// behind the constants.  Code fills the table.
//
// Objects come from files that may be damaged, so nothing in them is believed: every offset is
// checked, and whatever is not known is refused with std::invalid_argument.  The Python twin is
// functrax/backends/machine_code/object_loader.py, which refuses the same objects.
//
// Start at link().

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace functrax::object_loader {

// A function of a library that an object calls.
struct Call {
  std::size_t place;  // in the image, of 8 bytes for its address
  std::string name;
};

struct Image {
  std::vector<std::uint8_t> bytes;  // code from the start, constants from code_size on
  std::size_t code_size = 0;        // whole pages
  std::size_t entry = 0;            // where the one global function begins
  std::vector<Call> calls;
};

// Throws std::invalid_argument if the object is not one that can be linked for a machine, which is
// given by its number in ELF files.
Image link(const std::string& object, std::uint16_t machine, std::size_t page_size);

// An image in memory of its own: code may be read and executed, constants may be read.  Throws what
// link() does, also if a function that is called is not in this process, nor in a library of the C
// compiler; std::system_error if there is no memory.
class Code {
 public:
  explicit Code(const std::string& object);
  ~Code();
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;

  std::uintptr_t address() const { return reinterpret_cast<std::uintptr_t>(memory_) + entry_; }
  std::size_t size() const { return size_; }

 private:
  void* memory_ = nullptr;
  std::size_t size_ = 0;
  std::size_t entry_ = 0;
};

}  // namespace functrax::object_loader
