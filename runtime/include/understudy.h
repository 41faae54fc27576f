/* understudy.h: plays a `.understudy` deformer. This header is the whole contract.

   An engine adds this library (C++17, nothing but the standard library), loads a file once and calls one function per frame:

       understudy_model*   model   = understudy_load_file("hero.understudy", message, sizeof message);
       understudy_pool*    pool    = understudy_create_pool(2);             // threads that work on one call, the caller's included
       understudy_scratch* scratch = understudy_create_scratch(model, pool);
       understudy_deform(model, scratch, bones, controls, positions, normals);   // every frame

   A model is constant after loading: any number of threads may use it at once, each with a scratch of its own. Nothing is allocated inside
   `understudy_deform`. A pool may be shared: a call that finds it taken works alone. Results do not depend on the number of threads.

   Conventions: matrices are 3x4, row by row, and map column vectors: `world_from_bone` takes a point of the bone's frame to the world. Units,
   up axis and handedness are the file's. Sizes that a file may have: fewer than 2^31 of anything.

   Stability: functions are only ever added within a major version; file format versions up to UNDERSTUDY_FORMAT_VERSION are read. */
#ifndef UNDERSTUDY_H
#define UNDERSTUDY_H

#include <stddef.h>
#include <stdint.h>

#define UNDERSTUDY_FORMAT_VERSION 4

#if defined(UNDERSTUDY_SHARED) && defined(_WIN32)
#  if defined(UNDERSTUDY_BUILDING)
#    define UNDERSTUDY_API __declspec(dllexport)
#  else
#    define UNDERSTUDY_API __declspec(dllimport)
#  endif
#elif defined(__GNUC__)
#  define UNDERSTUDY_API __attribute__((visibility("default")))
#else
#  define UNDERSTUDY_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct understudy_model understudy_model;
typedef struct understudy_pool understudy_pool;
typedef struct understudy_scratch understudy_scratch;

typedef enum understudy_status {
    UNDERSTUDY_OK = 0,
    UNDERSTUDY_MISSING_ARGUMENT = 1,  /* a pointer that this model needs is NULL */
    UNDERSTUDY_NOT_FINITE = 2,        /* bones or controls hold NaN or infinity; the output was not written */
    UNDERSTUDY_WRONG_SCRATCH = 3      /* the scratch was made for another model */
} understudy_status;

/* ---- Loading. The reader distrusts its input: anything wrong gives NULL and one sentence in `message` (cut to `message_size`, always
   ended by a zero byte; may be NULL where `message_size` is 0), never a crash and never half a model. */

/* `data`: a whole file, `size` bytes; it is not kept. */
UNDERSTUDY_API understudy_model* understudy_load_memory(const void* data, size_t size, char* message, size_t message_size);
/* `path`: as the C library's `fopen` takes it. */
UNDERSTUDY_API understudy_model* understudy_load_file(const char* path, char* message, size_t message_size);
/* NULL is allowed. No scratch of this model may be used afterwards. */
UNDERSTUDY_API void understudy_free_model(understudy_model* model);

/* ---- Asking. `model` must not be NULL; numbers in a name's place must be below the count; texts live as long as the model (UTF-8). */

UNDERSTUDY_API size_t understudy_vertex_count(const understudy_model* model);
UNDERSTUDY_API size_t understudy_bone_count(const understudy_model* model);      /* 0: driven by controls alone */
UNDERSTUDY_API size_t understudy_control_count(const understudy_model* model);
UNDERSTUDY_API int understudy_reads_controls(const understudy_model* model);     /* 0: `controls` may be NULL */
UNDERSTUDY_API const char* understudy_bone_name(const understudy_model* model, size_t bone);
UNDERSTUDY_API int understudy_bone_parent(const understudy_model* model, size_t bone);  /* -1: a root; parents come first */
UNDERSTUDY_API const char* understudy_control_name(const understudy_model* model, size_t control);
UNDERSTUDY_API const char* understudy_method(const understudy_model* model);
UNDERSTUDY_API const char* understudy_unit(const understudy_model* model);
/* world_from_bone of every bone at rest: 12 numbers each. */
UNDERSTUDY_API const double* understudy_rest_bones(const understudy_model* model);
/* Rest positions, 3 numbers per vertex. */
UNDERSTUDY_API const float* understudy_rest_positions(const understudy_model* model);
/* Triangles, 3 vertex numbers each. */
UNDERSTUDY_API size_t understudy_triangle_count(const understudy_model* model);
UNDERSTUDY_API const int32_t* understudy_triangles(const understudy_model* model);
/* Bytes that one call reads: packed weights, bases, skin and rest. */
UNDERSTUDY_API size_t understudy_model_bytes(const understudy_model* model);
/* Clips that came with a mesh sequence: 12 numbers per bone per frame, to be passed to `understudy_deform` frame by frame. */
UNDERSTUDY_API size_t understudy_clip_count(const understudy_model* model);
UNDERSTUDY_API const char* understudy_clip_name(const understudy_model* model, size_t clip);
UNDERSTUDY_API size_t understudy_clip_frame_count(const understudy_model* model, size_t clip);
UNDERSTUDY_API double understudy_clip_frame_rate(const understudy_model* model, size_t clip);  /* 0: not known */
UNDERSTUDY_API const double* understudy_clip_frame(const understudy_model* model, size_t clip, size_t frame);

/* ---- Working. */

/* `threads`: how many work on one call, the caller's included; 1 to 64, others are brought into that range. The helpers spin for some tens of
   microseconds after a call and then sleep. NULL where threads cannot be started or memory is short. */
UNDERSTUDY_API understudy_pool* understudy_create_pool(int threads);
/* NULL is allowed. No scratch made with this pool may be used afterwards. */
UNDERSTUDY_API void understudy_free_pool(understudy_pool* pool);

/* Everything a call writes besides its output. `pool` may be NULL: the caller works alone. One scratch serves one call at a time. NULL where
   memory is short. */
UNDERSTUDY_API understudy_scratch* understudy_create_scratch(const understudy_model* model, understudy_pool* pool);
UNDERSTUDY_API void understudy_free_scratch(understudy_scratch* scratch);

/* One pose.
   world_from_bone  12 numbers per bone, finite; may be NULL where there are no bones
   controls         one number per control, finite; may be NULL where `understudy_reads_controls` is 0
   positions        3 numbers per vertex, written
   normals          3 numbers per vertex, written: of unit length, weighted by area; or NULL: not wanted */
UNDERSTUDY_API understudy_status understudy_deform(const understudy_model* model, understudy_scratch* scratch, const double* world_from_bone,
                                                   const double* controls, float* positions, float* normals);

/* Many poses (a crowd, a clip), 16 at a time so that each weight is read once for all of them: a pose then takes less than half of the time it takes
   alone. Those left of a multiple of 16, and dual quaternions, gain less. Arrays as above, pose after pose. */
UNDERSTUDY_API understudy_status understudy_deform_many(const understudy_model* model, understudy_scratch* scratch, size_t pose_count,
                                                        const double* world_from_bone, const double* controls, float* positions, float* normals);

/* The instruction set in use: "avx512", "avx2", "neon" or "portable". */
UNDERSTUDY_API const char* understudy_instruction_set(void);

#ifdef __cplusplus
}
#endif
#endif
