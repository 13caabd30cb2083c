/* Functions of your own in functrax's programs: the C interface.
 *
 * A handler is `functrax_ffi_error* handler(functrax_ffi_frame* frame)`. The frame has the arrays
 * that it reads, those that it fills, and its attributes; null says that all went well. The
 * structures have the layout, and the numbers the values, of version 0.3 of XLA's typed foreign
 * function interface (OpenXLA, xla/ffi/api/c_api.h, which describes the binary interface), so that
 * a handler compiled against either header runs under functrax and under JAX. Names and text are
 * functrax's own.
 *
 *     #include <functrax/ffi.h>
 *
 *     functrax_ffi_error* twice(functrax_ffi_frame* frame) {
 *       if (functrax_ffi_wants_metadata(frame)) return functrax_ffi_metadata(frame);
 *       functrax_ffi_error* error = functrax_ffi_expect(frame, 1, 1);
 *       const float* x = NULL;
 *       float* out = NULL;
 *       if (!error) error = functrax_ffi_argument(frame, 0, FUNCTRAX_FFI_F32, (void**)&x);
 *       if (!error) error = functrax_ffi_result(frame, 0, FUNCTRAX_FFI_F32, (void**)&out);
 *       if (error) return error;
 *       int64_t n = functrax_ffi_elements(functrax_ffi_argument_buffer(frame, 0));
 *       for (int64_t i = 0; i < n; ++i) out[i] = 2 * x[i];
 *       return NULL;
 *     }
 *
 * Start at functrax_ffi_frame. functrax/ffi.hpp has the same for C++.
 */

#ifndef FUNCTRAX_FFI_H
#define FUNCTRAX_FFI_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { FUNCTRAX_FFI_MAJOR = 0, FUNCTRAX_FFI_MINOR = 3 };

/* What an array's elements are. Elements of 1, 2 and 4 bits have no code here, for functrax has
 * them in a byte each. */
typedef enum {
  FUNCTRAX_FFI_NO_TYPE = 0,
  FUNCTRAX_FFI_BOOL = 1,
  FUNCTRAX_FFI_I8 = 2,
  FUNCTRAX_FFI_I16 = 3,
  FUNCTRAX_FFI_I32 = 4,
  FUNCTRAX_FFI_I64 = 5,
  FUNCTRAX_FFI_U8 = 6,
  FUNCTRAX_FFI_U16 = 7,
  FUNCTRAX_FFI_U32 = 8,
  FUNCTRAX_FFI_U64 = 9,
  FUNCTRAX_FFI_F16 = 10,
  FUNCTRAX_FFI_F32 = 11,
  FUNCTRAX_FFI_F64 = 12,
  FUNCTRAX_FFI_C64 = 15,
  FUNCTRAX_FFI_BF16 = 16,
  FUNCTRAX_FFI_C128 = 18,
  FUNCTRAX_FFI_F8E5M2 = 19,
  FUNCTRAX_FFI_F8E4M3FN = 20,
  FUNCTRAX_FFI_F8E4M3B11FNUZ = 23,
  FUNCTRAX_FFI_F8E5M2FNUZ = 24,
  FUNCTRAX_FFI_F8E4M3FNUZ = 25,
  FUNCTRAX_FFI_F8E4M3 = 28,
  FUNCTRAX_FFI_F8E3M4 = 29,
  FUNCTRAX_FFI_F8E8M0FNU = 33
} functrax_ffi_type;

/* Why a call failed; gRPC's status codes. */
typedef enum {
  FUNCTRAX_FFI_OK = 0,
  FUNCTRAX_FFI_CANCELLED = 1,
  FUNCTRAX_FFI_UNKNOWN = 2,
  FUNCTRAX_FFI_INVALID_ARGUMENT = 3,
  FUNCTRAX_FFI_DEADLINE_EXCEEDED = 4,
  FUNCTRAX_FFI_NOT_FOUND = 5,
  FUNCTRAX_FFI_ALREADY_EXISTS = 6,
  FUNCTRAX_FFI_PERMISSION_DENIED = 7,
  FUNCTRAX_FFI_RESOURCE_EXHAUSTED = 8,
  FUNCTRAX_FFI_FAILED_PRECONDITION = 9,
  FUNCTRAX_FFI_ABORTED = 10,
  FUNCTRAX_FFI_OUT_OF_RANGE = 11,
  FUNCTRAX_FFI_UNIMPLEMENTED = 12,
  FUNCTRAX_FFI_INTERNAL = 13,
  FUNCTRAX_FFI_UNAVAILABLE = 14,
  FUNCTRAX_FFI_DATA_LOSS = 15,
  FUNCTRAX_FFI_UNAUTHENTICATED = 16
} functrax_ffi_code;

typedef enum {
  FUNCTRAX_FFI_ATTRIBUTE_ARRAY = 1,
  FUNCTRAX_FFI_ATTRIBUTE_DICTIONARY = 2,
  FUNCTRAX_FFI_ATTRIBUTE_SCALAR = 3,
  FUNCTRAX_FFI_ATTRIBUTE_STRING = 4
} functrax_ffi_attribute_kind;

/* When a handler is called: once for each place in a program that calls it, before each run, and to
 * compute. */
typedef enum {
  FUNCTRAX_FFI_INSTANTIATE = 0,
  FUNCTRAX_FFI_PREPARE = 1,
  FUNCTRAX_FFI_INITIALIZE = 2,
  FUNCTRAX_FFI_EXECUTE = 3
} functrax_ffi_stage;

enum { FUNCTRAX_FFI_BUFFER = 1, FUNCTRAX_FFI_METADATA = 1 };

typedef struct functrax_ffi_error functrax_ffi_error;     /* the runtime's own */
typedef struct functrax_ffi_context functrax_ffi_context; /* the runtime's own */
typedef struct functrax_ffi_future functrax_ffi_future;   /* the runtime's own */

/* Every structure begins with its size in bytes, and a list of what extends it. */
typedef struct functrax_ffi_extension {
  size_t size;
  int32_t kind;
  struct functrax_ffi_extension* next;
} functrax_ffi_extension;

/* A dense, row-major array. */
typedef struct {
  size_t size;
  functrax_ffi_extension* extension;
  int32_t type; /* functrax_ffi_type */
  void* data;
  int64_t rank;
  int64_t* dims;
} functrax_ffi_buffer;

typedef struct {
  const char* data;
  size_t size; /* no null follows */
} functrax_ffi_string;

typedef struct {
  int32_t type;
  void* value;
} functrax_ffi_scalar;

typedef struct {
  int32_t type;
  size_t size; /* elements */
  void* data;
} functrax_ffi_array;

/* Arguments, or results. */
typedef struct {
  size_t size;
  functrax_ffi_extension* extension;
  int64_t count;
  int32_t* kinds; /* FUNCTRAX_FFI_BUFFER */
  void** values;  /* functrax_ffi_buffer* */
} functrax_ffi_values;

/* Attributes, sorted by name. A dictionary's value is one of these. */
typedef struct {
  size_t size;
  functrax_ffi_extension* extension;
  int64_t count;
  int32_t* kinds; /* functrax_ffi_attribute_kind */
  functrax_ffi_string** names;
  void** values;
} functrax_ffi_attributes;

typedef struct {
  size_t size;
  functrax_ffi_extension* extension;
  int major, minor;
} functrax_ffi_version;

typedef struct {
  int64_t id; /* 0: not known yet */
} functrax_ffi_type_id;

typedef struct {
  size_t size;
  functrax_ffi_extension* extension;
  void (*destroy)(void* object);
} functrax_ffi_type_info;

/* What the runtime asks a handler when it is registered. */
typedef struct {
  size_t size;
  functrax_ffi_version version;
  uint32_t traits;
  functrax_ffi_type_id state;
} functrax_ffi_about;

typedef struct {
  functrax_ffi_extension head; /* kind FUNCTRAX_FFI_METADATA */
  functrax_ffi_about* about;
} functrax_ffi_about_extension;

/* What the functions of the runtime take. */
typedef struct {
  size_t size;
  functrax_ffi_extension* extension;
  const char* message;
  int32_t code;
} functrax_ffi_new_error;

typedef struct {
  size_t size;
  functrax_ffi_extension* extension;
  functrax_ffi_error* error;
  const char* message; /* out */
} functrax_ffi_error_message;

typedef struct {
  size_t size;
  functrax_ffi_extension* extension;
  functrax_ffi_error* error;
} functrax_ffi_old_error;

typedef struct {
  size_t size;
  functrax_ffi_extension* extension;
  functrax_ffi_string name;
  functrax_ffi_type_id* id; /* in and out */
  const functrax_ffi_type_info* info;
} functrax_ffi_new_type;

typedef struct {
  size_t size;
  functrax_ffi_extension* extension;
  functrax_ffi_context* context;
  functrax_ffi_type_id* id;
  void* data; /* out */
} functrax_ffi_context_data;

/* To set a state, and to get it. */
typedef struct {
  size_t size;
  functrax_ffi_extension* extension;
  functrax_ffi_context* context;
  int32_t stage;
  functrax_ffi_type_id* id;
  void* state;
} functrax_ffi_state;

typedef struct {
  size_t size;
  functrax_ffi_extension* extension;
  functrax_ffi_context* context;
  void* stream; /* out */
} functrax_ffi_stream;

typedef struct {
  size_t size;
  functrax_ffi_extension* extension;
  functrax_ffi_context* context;
  size_t bytes, alignment;
  void* data; /* out */
} functrax_ffi_new_memory;

typedef struct {
  size_t size;
  functrax_ffi_extension* extension;
  functrax_ffi_context* context;
  size_t bytes;
  void* data;
} functrax_ffi_old_memory;

typedef struct {
  size_t size;
  functrax_ffi_extension* extension;
  functrax_ffi_context* context;
  void (*task)(void* data);
  void* data;
} functrax_ffi_task;

typedef struct {
  size_t size;
  functrax_ffi_extension* extension;
  functrax_ffi_context* context;
  int64_t* count; /* out */
} functrax_ffi_threads;

typedef struct {
  size_t size;
  functrax_ffi_extension* extension;
  functrax_ffi_future* future; /* out for the one that makes it */
  functrax_ffi_error* error;   /* of the one that fails it alone, which takes it */
} functrax_ffi_future_args;

typedef struct {
  size_t size;
  functrax_ffi_extension* extension;
  functrax_ffi_context* context;
  int64_t run; /* out */
} functrax_ffi_run;

typedef struct {
  size_t size;
  functrax_ffi_extension* extension;
  functrax_ffi_context* context;
  int32_t ordinal; /* out */
} functrax_ffi_device;

/* The functions of the runtime. Those that give an error give it to the caller. */
typedef struct {
  size_t size;
  functrax_ffi_extension* extension;
  functrax_ffi_version version;
  const void* internal;
  functrax_ffi_error* (*new_error)(functrax_ffi_new_error*);
  void (*error_message)(functrax_ffi_error_message*);
  void (*free_error)(functrax_ffi_old_error*);
  functrax_ffi_error* (*register_handler)(void*);
  functrax_ffi_error* (*stream)(functrax_ffi_stream*);
  functrax_ffi_error* (*register_type)(functrax_ffi_new_type*);
  functrax_ffi_error* (*context_data)(functrax_ffi_context_data*);
  functrax_ffi_error* (*set_state)(functrax_ffi_state*);
  functrax_ffi_error* (*get_state)(functrax_ffi_state*);
  functrax_ffi_error* (*allocate)(functrax_ffi_new_memory*);
  functrax_ffi_error* (*deallocate)(functrax_ffi_old_memory*);
  functrax_ffi_error* (*schedule)(functrax_ffi_task*);
  functrax_ffi_error* (*threads)(functrax_ffi_threads*);
  functrax_ffi_error* (*new_future)(functrax_ffi_future_args*);
  functrax_ffi_error* (*finish_future)(functrax_ffi_future_args*);
  functrax_ffi_error* (*fail_future)(functrax_ffi_future_args*);
  functrax_ffi_error* (*run)(functrax_ffi_run*);
  functrax_ffi_error* (*device)(functrax_ffi_device*);
} functrax_ffi_api;

/* One call of a handler. */
typedef struct functrax_ffi_frame {
  size_t size;
  functrax_ffi_extension* extension;
  const functrax_ffi_api* api;
  functrax_ffi_context* context;
  int32_t stage; /* functrax_ffi_stage */
  functrax_ffi_values arguments;
  functrax_ffi_values results;
  functrax_ffi_attributes attributes;
  functrax_ffi_future* future; /* out: the results are there when it is finished */
} functrax_ffi_frame;

/* The sizes that structures are given: up to their last member that counts. */
#define FUNCTRAX_FFI_SIZE(structure, last) \
  (offsetof(structure, last) + sizeof(((structure*)0)->last))

typedef functrax_ffi_error* functrax_ffi_handler(functrax_ffi_frame* frame);

/* ---- what follows is written with the above, for handlers in C ---- */

static inline functrax_ffi_error* functrax_ffi_fail(const functrax_ffi_frame* frame, int32_t code,
                                                    const char* message) {
  functrax_ffi_new_error args = {FUNCTRAX_FFI_SIZE(functrax_ffi_new_error, code), NULL, message,
                                 code};
  return frame->api->new_error(&args);
}

static inline int functrax_ffi_wants_metadata(const functrax_ffi_frame* frame) {
  return frame->extension != NULL && frame->extension->kind == FUNCTRAX_FFI_METADATA;
}

/* Answers with the version of this header; the handler keeps no state. */
static inline functrax_ffi_error* functrax_ffi_metadata(functrax_ffi_frame* frame) {
  functrax_ffi_about* about = ((functrax_ffi_about_extension*)frame->extension)->about;
  about->version.size = FUNCTRAX_FFI_SIZE(functrax_ffi_version, minor);
  about->version.extension = NULL;
  about->version.major = FUNCTRAX_FFI_MAJOR;
  about->version.minor = FUNCTRAX_FFI_MINOR;
  about->traits = 0;
  about->state.id = 0;
  return NULL;
}

static inline functrax_ffi_error* functrax_ffi_expect(const functrax_ffi_frame* frame,
                                                      int64_t arguments, int64_t results) {
  char text[96];
  if (frame->arguments.count == arguments && frame->results.count == results) return NULL;
  snprintf(text, sizeof text, "wrong number of arrays: %lld and %lld, not %lld and %lld",
           (long long)frame->arguments.count, (long long)frame->results.count, (long long)arguments,
           (long long)results);
  return functrax_ffi_fail(frame, FUNCTRAX_FFI_INVALID_ARGUMENT, text);
}

static inline const functrax_ffi_buffer* functrax_ffi_argument_buffer(
    const functrax_ffi_frame* frame, int64_t number) {
  return (const functrax_ffi_buffer*)frame->arguments.values[number];
}

static inline const functrax_ffi_buffer* functrax_ffi_result_buffer(const functrax_ffi_frame* frame,
                                                                    int64_t number) {
  return (const functrax_ffi_buffer*)frame->results.values[number];
}

static inline int64_t functrax_ffi_elements(const functrax_ffi_buffer* buffer) {
  int64_t count = 1;
  for (int64_t k = 0; k < buffer->rank; ++k) count *= buffer->dims[k];
  return count;
}

static inline functrax_ffi_error* functrax_ffi_data(const functrax_ffi_frame* frame,
                                                    const functrax_ffi_buffer* buffer,
                                                    const char* what, int64_t number, int32_t type,
                                                    void** data) {
  char text[96];
  *data = buffer->data;
  if (buffer->type == type) return NULL;
  snprintf(text, sizeof text, "%s %lld has elements of type %d, not %d", what, (long long)number,
           (int)buffer->type, (int)type);
  return functrax_ffi_fail(frame, FUNCTRAX_FFI_INVALID_ARGUMENT, text);
}

/* The memory of an argument, if its elements are of the type. */
static inline functrax_ffi_error* functrax_ffi_argument(const functrax_ffi_frame* frame,
                                                        int64_t number, int32_t type, void** data) {
  return functrax_ffi_data(frame, functrax_ffi_argument_buffer(frame, number), "argument", number,
                           type, data);
}

static inline functrax_ffi_error* functrax_ffi_result(const functrax_ffi_frame* frame,
                                                      int64_t number, int32_t type, void** data) {
  return functrax_ffi_data(frame, functrax_ffi_result_buffer(frame, number), "result", number, type,
                           data);
}

/* The value of an attribute of a kind: a functrax_ffi_scalar, functrax_ffi_array,
 * functrax_ffi_string or functrax_ffi_attributes. */
static inline functrax_ffi_error* functrax_ffi_attribute(const functrax_ffi_frame* frame,
                                                         const char* name, int32_t kind,
                                                         const void** value) {
  const functrax_ffi_attributes* all = &frame->attributes;
  const size_t length = strlen(name);
  char text[96];
  for (int64_t k = 0; k < all->count; ++k) {
    const functrax_ffi_string* found = all->names[k];
    if (found->size != length || memcmp(found->data, name, length) != 0) continue;
    if (all->kinds[k] != kind) break;
    *value = all->values[k];
    return NULL;
  }
  snprintf(text, sizeof text, "no attribute %.40s of kind %d", name, (int)kind);
  return functrax_ffi_fail(frame, FUNCTRAX_FFI_INVALID_ARGUMENT, text);
}

/* Copies the value of an attribute that is a number of the type. */
static inline functrax_ffi_error* functrax_ffi_number(const functrax_ffi_frame* frame,
                                                      const char* name, int32_t type, void* value,
                                                      size_t bytes) {
  const void* found = NULL;
  char text[96];
  functrax_ffi_error* error =
      functrax_ffi_attribute(frame, name, FUNCTRAX_FFI_ATTRIBUTE_SCALAR, &found);
  if (error) return error;
  if (((const functrax_ffi_scalar*)found)->type == type) {
    memcpy(value, ((const functrax_ffi_scalar*)found)->value, bytes);
    return NULL;
  }
  snprintf(text, sizeof text, "attribute %.40s is of type %d, not %d", name,
           (int)((const functrax_ffi_scalar*)found)->type, (int)type);
  return functrax_ffi_fail(frame, FUNCTRAX_FFI_INVALID_ARGUMENT, text);
}

#ifdef __cplusplus
}
#endif

#endif /* FUNCTRAX_FFI_H */
