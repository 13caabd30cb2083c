/* Threads for programs that functrax compiled: C11 and POSIX threads, in this header alone.
 *
 *   functrax_pool *pool = functrax_pool_create(4);
 *   functrax_threads threads = functrax_pool_threads(pool);
 *   code = loss(..., workspace, &threads);
 *   functrax_pool_destroy(pool);
 *
 * Several threads may call programs with one pool at the same time: a call that finds the pool busy
 * does its work itself.  Include it behind the header of a program, and link with -lpthread.
 */
#ifndef FUNCTRAX_POOL_H
#define FUNCTRAX_POOL_H

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#ifndef FUNCTRAX_CALL_H
#error "include the header of a program before functrax_pool.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Work of fewer nanoseconds is not shared: waking a thread takes some microseconds. */
#ifndef FUNCTRAX_POOL_WAKE_NS
#define FUNCTRAX_POOL_WAKE_NS VALUE_OF_WAKE_NS
#endif

typedef struct functrax_pool {
  pthread_mutex_t use;  /* held by the call whose work it is */
  pthread_mutex_t lock; /* of all that follows */
  pthread_cond_t begin, end;
  pthread_t* workers;
  int count;     /* workers, beside the calling thread */
  int ends;      /* whether they are to end */
  int64_t round; /* counts the calls */
  int wanted;    /* workers that may still join this one */
  int busy;      /* that have joined and are not done */
  functrax_task task;
  void* context;
  int64_t units, size, next;
} functrax_pool;

/* Does ranges until none is left; called and left with the lock held. */
static inline void functrax_pool_work(functrax_pool* pool) {
  while (pool->next < pool->units) {
    const int64_t begin = pool->next;
    const int64_t rest = pool->units - begin;
    const int64_t end = begin + (rest < pool->size ? rest : pool->size);
    const functrax_task task = pool->task;
    void* const context = pool->context;
    pool->next = end;
    pthread_mutex_unlock(&pool->lock);
    task(context, begin, end);
    pthread_mutex_lock(&pool->lock);
  }
}

static inline void* functrax_pool_worker(void* given) {
  functrax_pool* pool = (functrax_pool*)given;
  int64_t seen = 0;
  pthread_mutex_lock(&pool->lock);
  for (;;) {
    while (!pool->ends && (pool->round == seen || pool->wanted == 0)) {
      seen = pool->round;
      pthread_cond_wait(&pool->begin, &pool->lock);
    }
    if (pool->ends) break;
    seen = pool->round;
    --pool->wanted;
    ++pool->busy;
    functrax_pool_work(pool);
    if (--pool->busy == 0) pthread_cond_signal(&pool->end);
  }
  pthread_mutex_unlock(&pool->lock);
  return NULL;
}

static inline void functrax_pool_run(void* given, functrax_task task, void* context, int64_t units,
                                     int64_t grain, int64_t cost) {
  functrax_pool* pool = (functrax_pool*)given;
  const int64_t pieces = (units + grain - 1) / grain;
  int64_t threads = cost / FUNCTRAX_POOL_WAKE_NS;
  if (threads < 2) threads = 2;
  if (threads > pool->count + 1) threads = pool->count + 1;
  if (threads > pieces) threads = pieces;
  if (cost < FUNCTRAX_POOL_WAKE_NS || threads < 2 || pthread_mutex_trylock(&pool->use) != 0) {
    task(context, 0, units);
    return;
  }
  pthread_mutex_lock(&pool->lock);
  pool->task = task;
  pool->context = context;
  pool->units = units;
  pool->size = (pieces + threads - 1) / threads * grain;
  pool->next = 0;
  pool->wanted = (int)threads - 1;
  ++pool->round;
  if (threads == 2) {
    pthread_cond_signal(&pool->begin);
  } else {
    pthread_cond_broadcast(&pool->begin);
  }
  functrax_pool_work(pool);
  pool->wanted = 0;
  while (pool->busy > 0) pthread_cond_wait(&pool->end, &pool->lock);
  pthread_mutex_unlock(&pool->lock);
  pthread_mutex_unlock(&pool->use);
}

static inline void functrax_pool_destroy(functrax_pool* pool) {
  int k;
  if (pool == NULL) return;
  pthread_mutex_lock(&pool->lock);
  pool->ends = 1;
  pthread_cond_broadcast(&pool->begin);
  pthread_mutex_unlock(&pool->lock);
  for (k = 0; k < pool->count; ++k) pthread_join(pool->workers[k], NULL);
  pthread_cond_destroy(&pool->begin);
  pthread_cond_destroy(&pool->end);
  pthread_mutex_destroy(&pool->lock);
  pthread_mutex_destroy(&pool->use);
  free(pool->workers);
  free(pool);
}

/* A pool of so many threads, the calling one among them; NULL where there is no memory.  It has
 * fewer where the system gives no more. */
static inline functrax_pool* functrax_pool_create(int threads) {
  functrax_pool* pool = (functrax_pool*)calloc(1, sizeof *pool);
  const int wanted = threads > 1 ? threads - 1 : 0;
  if (pool == NULL) return NULL;
  pthread_mutex_init(&pool->use, NULL);
  pthread_mutex_init(&pool->lock, NULL);
  pthread_cond_init(&pool->begin, NULL);
  pthread_cond_init(&pool->end, NULL);
  pool->workers = (pthread_t*)calloc((size_t)wanted + 1, sizeof *pool->workers);
  if (pool->workers == NULL) {
    functrax_pool_destroy(pool);
    return NULL;
  }
  while (pool->count < wanted) {
    if (pthread_create(&pool->workers[pool->count], NULL, functrax_pool_worker, pool) != 0) break;
    ++pool->count;
  }
  return pool;
}

/* What calls of programs take. */
static inline functrax_threads functrax_pool_threads(functrax_pool* pool) {
  functrax_threads threads;
  threads.pool = pool;
  threads.run = functrax_pool_run;
  return threads;
}

#ifdef __cplusplus
}
#endif

#endif /* FUNCTRAX_POOL_H */
