// See object_loader.h.

#include "object_loader.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "targets/native.h"

namespace functrax::object_loader {
namespace {

using targets::kStub;
using targets::need;

// The parts of the ELF specification that are needed; <elf.h> is not everywhere.
struct FileHeader {
  std::uint8_t ident[16];
  std::uint16_t type, machine;
  std::uint32_t version;
  std::uint64_t entry, program_offset, section_offset;
  std::uint32_t flags;
  std::uint16_t size, program_entry_size, program_count, section_entry_size, section_count, names;
};
struct SectionHeader {
  std::uint32_t name, type;
  std::uint64_t flags, address, offset, size;
  std::uint32_t link, info;
  std::uint64_t alignment, entry_size;
};
struct Symbol {
  std::uint32_t name;
  std::uint8_t info, other;
  std::uint16_t section;
  std::uint64_t value, size;
};
struct Relocation {
  std::uint64_t offset, info;
  std::int64_t addend;
};
static_assert(sizeof(FileHeader) == 64 && sizeof(SectionHeader) == 64);
static_assert(sizeof(Symbol) == 24 && sizeof(Relocation) == 24);

enum : std::uint32_t { kProgbits = 1, kSymtab = 2, kStrtab = 3, kRela = 4, kNobits = 8, kRel = 9 };
enum : std::uint64_t { kWrite = 1, kAlloc = 2, kExecute = 4, kMerge = 16, kStrings = 32 };
constexpr std::uint32_t kUnwind = 0x70000001;  // of processors that have a type for it
constexpr std::uint8_t kIdent[7] = {0x7f, 'E', 'L', 'F', 2, 1, 1};  // 64 bits, little-endian
constexpr std::uint16_t kRelocatable = 1;
constexpr std::size_t kMaxSize = std::size_t{64} << 20;
constexpr std::size_t kMaxSections = 4096;
constexpr std::size_t kNowhere = std::numeric_limits<std::size_t>::max();
constexpr std::uint8_t kGlobalFunction = 0x12;
constexpr std::uint8_t kLastPlainType = 3;  // no type, data, function, section
constexpr std::uint8_t kGlobal = 0x10;      // of no type: what another object defines
constexpr std::size_t kAddress = 8;

std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

// The object and where its sections lie in the image.
class Linker {
 public:
  Linker(const std::string& object, const targets::Relocations& rules, std::size_t page_size)
      : object_(object), rules_(rules), page_size_(page_size) {}

  Image link() {
    read_headers();
    find_calls();
    lay_out();
    for (std::size_t n = 0; n < image_.calls.size(); ++n) write_stub(n);
    for (std::size_t n = 0; n < sections_.size(); ++n) relocate_section(n);
    find_entry();
    return std::move(image_);
  }

 private:
  // The n-th record of a table at `offset`, which ends before `end`.
  template <class Record>
  Record record(std::uint64_t offset, std::uint64_t size, std::uint64_t n) const {
    need(n < size / sizeof(Record), "an index lies outside of its table");
    Record result;
    std::memcpy(&result, object_.data() + offset + n * sizeof(Record), sizeof(Record));
    return result;
  }

  void read_headers() {
    need(object_.size() <= kMaxSize, "it is too large");
    const auto header = record<FileHeader>(0, object_.size(), 0);
    need(std::memcmp(header.ident, kIdent, sizeof kIdent) == 0, "it is not ELF64");
    need(header.type == kRelocatable, "it is not relocatable");
    need(header.machine == rules_.machine, "it is for another processor");
    need(header.version == 1 && header.section_entry_size == sizeof(SectionHeader),
         "its header is of another form");
    need(header.section_count > 0 && header.section_count <= kMaxSections,
         "it has no sections, or too many");
    const std::uint64_t table = std::uint64_t{header.section_count} * sizeof(SectionHeader);
    need(header.section_offset <= object_.size() && table <= object_.size() - header.section_offset,
         "its sections lie outside of it");
    for (std::size_t n = 0; n < header.section_count; ++n) {
      sections_.push_back(record<SectionHeader>(header.section_offset, table, n));
      const SectionHeader& section = sections_.back();
      need(
          section.type == 0 || section.type == kNobits ||
              (section.offset <= object_.size() && section.size <= object_.size() - section.offset),
          "a section lies outside of it");
      if (section.type != kSymtab) continue;
      need(symbols_ == 0 && section.entry_size == sizeof(Symbol),
           "its symbols are of another form");
      symbols_ = n;
    }
    need(sections_[0].type == 0 && symbols_ != 0, "it has no symbols");
    need(header.names < sections_.size() && sections_[header.names].type == kStrtab,
         "its sections have no names");
    names_ = sections_[header.names];
  }

  bool is_unwind(const SectionHeader& section) const {
    static constexpr char name[] = ".eh_frame";
    if (section.type == kUnwind) return true;
    if (section.name > names_.size || names_.size - section.name < sizeof name) return false;
    return std::memcmp(object_.data() + names_.offset + section.name, name, sizeof name) == 0;
  }

  // The functions that are called and not defined here.
  void find_calls() {
    const std::uint64_t count = sections_[symbols_].size / sizeof(Symbol);
    for (std::uint64_t n = 0; n < count; ++n) {
      const Symbol called = symbol(n);
      if (called.section != 0 || called.info != kGlobal || called.name == 0) continue;
      called_[n] = image_.calls.size();
      image_.calls.push_back({0, symbol_name(called)});
    }
  }

  std::string symbol_name(const Symbol& symbol) const {
    const std::uint32_t link = sections_[symbols_].link;
    need(link < sections_.size() && sections_[link].type == kStrtab, "its symbols have no names");
    const SectionHeader& names = sections_[link];
    need(symbol.name < names.size, "a name lies outside of its table");
    const char* first = object_.data() + names.offset + symbol.name;
    const void* end = std::memchr(first, 0, names.size - symbol.name);
    need(end != nullptr, "a name lies outside of its table");
    return std::string(first, static_cast<const char*>(end));
  }

  // Behind the code: a jump to the address in the table.
  void write_stub(std::size_t n) {
    const std::size_t here = stubs_ + n * kStub;
    const auto slot = static_cast<std::int64_t>(image_.calls[n].place);
    rules_.stub(image_.bytes.data() + here, static_cast<std::int64_t>(here), slot);
  }

  void lay_out() {
    places_.assign(sections_.size(), kNowhere);
    std::size_t end = 0;
    for (const bool code : {true, false}) {
      for (std::size_t n = 0; n < sections_.size(); ++n) {
        const SectionHeader& section = sections_[n];
        const bool is_code = (section.flags & kExecute) != 0;
        if (!(section.flags & kAlloc) || section.size == 0 || is_code != code) continue;
        if (is_unwind(section)) continue;  // nothing is thrown through a kernel
        end = place(n, end);
      }
      if (!code) break;
      stubs_ = round_up(end, kStub);
      if (!image_.calls.empty()) end = stubs_ + image_.calls.size() * kStub;
      end = image_.code_size = round_up(end, page_size_);
    }
    need(image_.code_size > 0, "it has no code");
    for (Call& call : image_.calls) {
      call.place = round_up(end, kAddress);
      end = call.place + kAddress;
    }
    need(end <= kMaxSize, "it is too large");
    image_.bytes.assign(round_up(end, page_size_), 0);
    for (std::size_t n = 0; n < sections_.size(); ++n) {
      if (places_[n] == kNowhere) continue;
      std::memcpy(image_.bytes.data() + places_[n], object_.data() + sections_[n].offset,
                  sections_[n].size);
    }
  }

  std::size_t place(std::size_t n, std::size_t end) {
    const SectionHeader& section = sections_[n];
    const std::uint64_t alignment = section.alignment == 0 ? 1 : section.alignment;
    need(section.type == kProgbits, "a section is of an unknown type");
    need((section.flags & ~(kAlloc | kExecute | kMerge | kStrings)) == 0,
         "a section is writable, or of an unknown kind");
    need(alignment <= page_size_ && (alignment & (alignment - 1)) == 0,
         "a section has an unknown alignment");
    places_[n] = round_up(end, alignment);
    end = places_[n] + section.size;
    need(end <= kMaxSize, "it is too large");
    return end;
  }

  void relocate_section(std::size_t n) {
    const SectionHeader& table = sections_[n];
    if (table.type != kRela && table.type != kRel) return;
    need(table.info < sections_.size(), "relocations are for no section");
    if (places_[table.info] == kNowhere) return;
    need(table.type == kRela && table.entry_size == sizeof(Relocation) && table.link == symbols_,
         "relocations are of another form");
    for (std::uint64_t k = 0; k < table.size / sizeof(Relocation); ++k) {
      const auto relocation = record<Relocation>(table.offset, table.size, k);
      apply(relocation, table.info);
    }
  }

  Symbol symbol(std::uint64_t n) const {
    return record<Symbol>(sections_[symbols_].offset, sections_[symbols_].size, n);
  }

  // Where a symbol that the object defines lies in the image.
  std::size_t symbol_place(const Symbol& symbol) const {
    need(symbol.section < places_.size() && places_[symbol.section] != kNowhere &&
             (symbol.info & 15) <= kLastPlainType,
         "a symbol is defined elsewhere");
    need(symbol.value <= sections_[symbol.section].size, "a symbol lies outside of its section");
    return places_[symbol.section] + symbol.value;
  }

  void apply(const Relocation& relocation, std::size_t section) {
    std::uint32_t type = static_cast<std::uint32_t>(relocation.info);
    if (type == 0) return;  // R_*_NONE
    const std::uint64_t size = sections_[section].size;
    need(size >= 4 && relocation.offset <= size - 4, "a relocation lies outside of its section");
    const std::size_t here = places_[section] + relocation.offset;
    const std::uint64_t number = relocation.info >> 32;
    const auto called = called_.find(number);
    std::int64_t start;
    if (called == called_.end()) {
      start = symbol_place(symbol(number));
    } else if (rules_.calls(type)) {
      start = static_cast<std::int64_t>(stubs_ + called->second * kStub);
    } else {
      type = rules_.in_table(type);
      need(type != 0, "a relocation is of an unknown type");
      start = static_cast<std::int64_t>(image_.calls[called->second].place);
    }
    constexpr std::int64_t limit = std::int64_t{1} << 32;  // keeps the sums below from overflowing
    need(relocation.addend > -limit && relocation.addend < limit, "an addend is out of range");
    put(here,
        rules_.word(type, get(here), static_cast<std::int64_t>(here), start + relocation.addend));
  }

  std::uint32_t get(std::size_t here) const {
    std::uint32_t value;
    std::memcpy(&value, image_.bytes.data() + here, sizeof value);
    return value;
  }

  void put(std::size_t here, std::uint32_t value) {
    std::memcpy(image_.bytes.data() + here, &value, sizeof value);
  }

  void find_entry() {
    const std::uint64_t count = sections_[symbols_].size / sizeof(Symbol);
    bool found = false;
    for (std::uint64_t n = 0; n < count; ++n) {
      const Symbol candidate = symbol(n);
      if (candidate.info != kGlobalFunction) continue;
      const std::size_t place = symbol_place(candidate);
      need(!found && (sections_[candidate.section].flags & kExecute) &&
               candidate.value < sections_[candidate.section].size,
           "it has not one function");
      image_.entry = place;
      found = true;
    }
    need(found, "it has not one function");
  }

  const std::string& object_;
  const targets::Relocations& rules_;
  const std::size_t page_size_;
  std::vector<SectionHeader> sections_;
  std::vector<std::size_t> places_;  // of each section in the image, or kNowhere
  SectionHeader names_{};
  std::size_t symbols_ = 0;                                // the number of the section of symbols
  std::size_t stubs_ = 0;                                  // where they begin in the image
  std::unordered_map<std::uint64_t, std::size_t> called_;  // symbols, and which of the calls
  Image image_;
};

// The address of a function of this process, or of the libraries that compilers rely on.
void* function_address(const std::string& name) {
  if (void* found = dlsym(RTLD_DEFAULT, name.c_str())) return found;
  for (const char* library : {"libm.so.6", "libgcc_s.so.1"}) {
    void* handle = dlopen(library, RTLD_NOW);  // and never closed: code refers to it
    if (handle == nullptr) continue;
    if (void* found = dlsym(handle, name.c_str())) return found;
  }
  throw std::invalid_argument("object code refused: it calls " + name + ", which is not there");
}

}  // namespace

Image link(const std::string& object, std::uint16_t machine, std::size_t page_size) {
  const targets::Relocations* rules = targets::relocations_of(machine);
  need(rules != nullptr, "the processor is unknown");
  need(page_size >= 4096 && page_size <= (1 << 20) && (page_size & (page_size - 1)) == 0,
       "the page size is unknown");
  return Linker(object, *rules, page_size).link();
}

Code::Code(const std::string& object) {
  Image image = link(object, targets::kHost, static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
  for (const Call& call : image.calls) {
    void* address = function_address(call.name);
    std::memcpy(image.bytes.data() + call.place, &address, sizeof address);
  }
  void* memory =
      mmap(nullptr, image.bytes.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
  auto* start = static_cast<char*>(memory);
  std::memcpy(start, image.bytes.data(), image.bytes.size());
  __builtin___clear_cache(start, start + image.code_size);
  const std::size_t constants = image.bytes.size() - image.code_size;
  if (mprotect(start, image.code_size, PROT_READ | PROT_EXEC) != 0 ||
      (constants > 0 && mprotect(start + image.code_size, constants, PROT_READ) != 0)) {
    const int error = errno;
    munmap(memory, image.bytes.size());
    throw std::system_error(error, std::generic_category(), "mprotect");
  }
  memory_ = memory;
  size_ = image.bytes.size();
  entry_ = image.entry;
}

Code::~Code() {
  if (memory_ != nullptr) munmap(memory_, size_);
}

}  // namespace functrax::object_loader
