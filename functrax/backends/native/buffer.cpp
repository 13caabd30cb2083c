// See buffer.h.

#include "buffer.h"

#include <structmember.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "numpy_arrays.h"
#include "reference.h"

namespace functrax::buffer {
namespace {

PyTypeObject* type = nullptr;

Buffer* as_buffer(PyObject* object) { return reinterpret_cast<Buffer*>(object); }

// Objects that wait to be made again, linked by `dtype`; the GIL guards them.
#ifdef __SANITIZE_ADDRESS__
constexpr int kMostSpare = 0;  // so that uses after the end are seen
#else
constexpr int kMostSpare = 1024;
#endif
struct {
  PyObject* first = nullptr;
  int count = 0;
} spare;

PyObject* allocate_object() {
  if (spare.first == nullptr) return type->tp_alloc(type, 0);
  PyObject* object = std::exchange(spare.first, as_buffer(spare.first)->dtype);
  --spare.count;
  return PyObject_Init(object, type);
}

void free_object(PyObject* object) {
  if (spare.count >= kMostSpare) return type->tp_free(object);
  as_buffer(object)->dtype = std::exchange(spare.first, object);
  ++spare.count;
}

Buffer* new_buffer(PyObject* shape, PyObject* dtype, Py_ssize_t nbytes) {
  auto* made = as_buffer(allocate_object());
  if (made == nullptr) return nullptr;
  made->block = nullptr;
  made->data = nullptr;
  made->pending = nullptr;
  Py_INCREF(shape);
  Py_INCREF(dtype);
  made->shape = shape;
  made->dtype = dtype;
  made->nbytes = nbytes;
  return made;
}

// Bytes of an array, or -1 with an error set.
Py_ssize_t count_bytes(PyObject* shape, PyObject* dtype) {
  Ref item(PyObject_GetAttrString(dtype, "itemsize"));
  if (!item) return -1;
  Py_ssize_t nbytes = PyLong_AsSsize_t(item.get());
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(shape); ++k) {
    const Py_ssize_t size = PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, k));
    if (size == -1 && PyErr_Occurred()) return -1;
    if (size < 0 || __builtin_mul_overflow(nbytes, size, &nbytes)) {
      PyErr_SetString(PyExc_ValueError, "Buffer: a shape has sizes that are not negative");
      return -1;
    }
  }
  return nbytes;
}

PyObject* construct(PyTypeObject*, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"shape", "dtype", nullptr};
  PyObject *sizes, *spec;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO", const_cast<char**>(names), &sizes, &spec))
    return nullptr;
  Ref shape(PySequence_Tuple(sizes));
  Ref numpy(PyImport_ImportModule("numpy"));
  if (!shape || !numpy) return nullptr;
  Ref dtype(PyObject_CallMethod(numpy.get(), "dtype", "O", spec));
  if (!dtype) return nullptr;
  const Py_ssize_t nbytes = count_bytes(shape.get(), dtype.get());
  return nbytes < 0 ? nullptr : make(shape.get(), dtype.get(), nbytes, nullptr);
}

// Gives the block up, to the task that writes to it if that is not finished.
void drop_block(Buffer* buffer) {
  pool::Block* block = std::exchange(buffer->block, nullptr);
  tasks::Task* task = std::exchange(buffer->pending, nullptr);
  buffer->data = nullptr;
  if (task == nullptr) {
    pool::release_with_gil(block);
    return;
  }
  if (block != nullptr) tasks::keep(task, block);
  tasks::release(task);
}

void destroy(PyObject* self) {
  Buffer* buffer = as_buffer(self);
  drop_block(buffer);
  Py_DECREF(buffer->dtype);
  Py_DECREF(buffer->shape);
  free_object(self);
  Py_DECREF(type);
}

PyObject* materialize(PyObject* self, PyObject*) {
  Buffer* buffer = as_buffer(self);
  if (buffer->data == nullptr) {
    set_deleted_error(buffer);
    return nullptr;
  }
  if (!wait(buffer) || !numpy_arrays::load()) return nullptr;
  if (buffer->data == nullptr) {  // while it waited
    set_deleted_error(buffer);
    return nullptr;
  }
  const auto rank = static_cast<int>(PyTuple_GET_SIZE(buffer->shape));
  std::vector<Py_ssize_t> shape(rank);
  for (int k = 0; k < rank; ++k) shape[k] = PyLong_AsSsize_t(PyTuple_GET_ITEM(buffer->shape, k));
  Ref owner(share(buffer->block));
  if (!owner) return nullptr;
  return numpy_arrays::make_array(buffer->dtype, rank, shape.data(), buffer->data, owner.get(),
                                  false);
}

PyObject* to_array(PyObject* self, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"dtype", "copy", nullptr};
  PyObject *dtype = Py_None, *copy = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "|OO", const_cast<char**>(names), &dtype, &copy))
    return nullptr;
  Ref value(materialize(self, nullptr));
  if (!value || (dtype == Py_None && copy != Py_True)) return value.release();
  Ref converted(Ref::share(dtype == Py_None ? as_buffer(self)->dtype : dtype));
  const bool must_copy = copy == Py_True;
  Ref method(PyObject_GetAttrString(value.get(), "astype"));
  Ref options(Py_BuildValue("{s:O}", "copy", must_copy ? Py_True : Py_False));
  Ref types(PyTuple_Pack(1, converted.get()));
  if (!method || !options || !types) return nullptr;
  return PyObject_Call(method.get(), types.get(), options.get());
}

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  Ref array(materialize(self, nullptr));
  if (!array) {
    view->obj = nullptr;
    return -1;
  }
  // The view belongs to the NumPy array, which it keeps alive and which releases it.
  return PyObject_GetBuffer(array.get(), view, flags);
}

PyObject* remove(PyObject* self, PyObject*) {
  drop_block(as_buffer(self));
  Py_RETURN_NONE;
}

PyObject* wait_for(PyObject* self, PyObject*) {
  if (!wait(as_buffer(self))) return nullptr;
  Py_RETURN_NONE;
}

PyObject* is_ready(PyObject* self, PyObject*) {
  const tasks::Task* task = as_buffer(self)->pending;
  return PyBool_FromLong(task == nullptr || tasks::is_finished(task));
}

PyObject* address(PyObject* self, void*) {
  if (!wait(as_buffer(self))) return nullptr;
  if (as_buffer(self)->data != nullptr) return PyLong_FromVoidPtr(as_buffer(self)->data);
  set_deleted_error(as_buffer(self));
  return nullptr;
}

PyObject* deleted(PyObject* self, void*) {
  return PyBool_FromLong(as_buffer(self)->data == nullptr);
}

PyObject* text(PyObject* self) {
  const Buffer* buffer = as_buffer(self);
  if (buffer->data == nullptr) {
    return PyUnicode_FromFormat("Buffer(%S%S, deleted)", buffer->dtype, buffer->shape);
  }
  return PyUnicode_FromFormat("Buffer(%S%S, %p)", buffer->dtype, buffer->shape, buffer->data);
}

PyMethodDef methods[] = {
    {"materialize", materialize, METH_NOARGS, "The elements as a read-only array, not copied."},
    {"__array__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(to_array)),
     METH_VARARGS | METH_KEYWORDS, "The elements as an array."},
    {"wait", wait_for, METH_NOARGS, "Wait until the elements are computed."},
    {"is_ready", is_ready, METH_NOARGS, "Whether nobody has to wait for the elements."},
    {"delete", remove, METH_NOARGS, "Give the memory up."},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef members[] = {
    {"dtype", T_OBJECT_EX, offsetof(Buffer, dtype), READONLY, "The dtype."},
    {"shape", T_OBJECT_EX, offsetof(Buffer, shape), READONLY, "The shape."},
    {"nbytes", T_PYSSIZET, offsetof(Buffer, nbytes), READONLY, "Bytes that the elements take."},
    {nullptr, 0, 0, 0, nullptr},
};

PyGetSetDef properties[] = {
    {"address", address, nullptr, "Where the first element lies.", nullptr},
    {"deleted", deleted, nullptr, "Whether the memory was given away.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(construct)},
    {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
    {Py_tp_repr, reinterpret_cast<void*>(text)},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {Py_tp_getset, properties},
    {Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
    {Py_tp_doc, const_cast<char*>("An array in memory of the pool.")},
    {0, nullptr},
};

PyType_Spec spec = {"functrax._native.Buffer", sizeof(Buffer), 0, Py_TPFLAGS_DEFAULT, slots};

// Sets the error that a function of functrax.backends.executables.program_inputs makes.
void set_error(const char* function, const Buffer* buffer) {
  Ref module(PyImport_ImportModule("functrax.backends.executables.program_inputs"));
  if (!module) return;
  Ref error(PyObject_CallMethod(module.get(), function, "OO", buffer->shape, buffer->dtype));
  if (error) PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())), error.get());
}

}  // namespace

void* nowhere() {
  alignas(pool::kAlignment) static char place[pool::kAlignment];
  return place;
}

PyObject* make_type() {
  PyObject* made = PyType_FromSpec(&spec);
  type = reinterpret_cast<PyTypeObject*>(made);
  return made;
}

bool is_buffer(PyObject* object) { return Py_TYPE(object) == type; }

bool is_plain(PyObject* raw) { return is_buffer(raw) || numpy_arrays::is_array(raw); }

PyObject* make(PyObject* shape, PyObject* dtype, Py_ssize_t nbytes, pool::Block* block) {
  if (block == nullptr && nbytes > 0) {
    block = pool::allocate_with_gil(static_cast<std::size_t>(nbytes));
    if (block == nullptr) {
      return PyErr_Format(PyExc_MemoryError,
                          "no memory for an array of shape %R and dtype %S, %zd bytes", shape,
                          dtype, nbytes);
    }
  }
  Buffer* made = new_buffer(shape, dtype, nbytes);
  if (made == nullptr) {
    pool::release_with_gil(block);
    return nullptr;
  }
  made->block = block;
  made->data = block == nullptr ? nowhere() : block->data;
  return reinterpret_cast<PyObject*>(made);
}

PyObject* share(pool::Block* block) {
  Buffer* made = new_buffer(Py_None, Py_None, 0);
  if (made == nullptr) return nullptr;
  if (block != nullptr) pool::retain(block);
  made->block = block;
  return reinterpret_cast<PyObject*>(made);
}

pool::Block* take_block(Buffer* buffer) {
  if (buffer->block == nullptr || !pool::is_sole(buffer->block)) return nullptr;
  buffer->data = nullptr;
  tasks::Task* task = std::exchange(buffer->pending, nullptr);
  if (task != nullptr) tasks::release(task);
  return std::exchange(buffer->block, nullptr);
}

bool finish(Buffer* buffer) {
  tasks::Task* task = buffer->pending;
  tasks::retain(task);  // another thread may delete the buffer meanwhile
  bool done = tasks::wait(task);
  if (done && !tasks::has_succeeded(task)) {
    set_error("interrupted_error", buffer);
    done = false;
  }
  if (done && buffer->pending == task) {
    buffer->pending = nullptr;
    tasks::release(task);
  }
  tasks::release(task);
  return done;
}

void set_pending(Buffer* buffer, tasks::Task* task) {
  tasks::retain(task);
  buffer->pending = task;
}

void set_deleted_error(const Buffer* buffer) { set_error("deleted_error", buffer); }

}  // namespace functrax::buffer
