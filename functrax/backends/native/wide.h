// Functions that processors with wider vectors run in another translation of the same operations.

#pragma once

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define FUNCTRAX_WIDE __attribute__((flatten, target_clones("arch=x86-64-v3", "default")))
#else
#define FUNCTRAX_WIDE
#endif
