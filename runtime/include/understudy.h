/* clang-format off */
/* understudy.h: plays `.understudy` deformers. This header is the whole API.

   Load a file once, then call one function per frame:

       char message[256];
       understudy_model* model = understudy_load_file("hero.understudy", message, sizeof message);
       understudy_pool* pool = understudy_create_pool(2);
       understudy_scratch* scratch = understudy_create_scratch(model, pool);
       understudy_deform(model, scratch, bones, controls, positions, normals);  // every frame

   examples/play_clip.cpp is a complete program.

   Threads: a model never changes after loading. Any number of threads may use it at once, each with
   its own scratch. A pool may be shared; a call that finds it in use works alone. Results depend
   neither on the number of threads nor on their floating-point modes (rounding, flush-to-zero): on
   x86 and 64-bit ARM a call sets the default mode of each thread, and the thread's own at its end.
   Memory: `understudy_deform` and `understudy_deform_many` do not allocate. All other memory comes
   from one pair of functions, which the host may provide.
   Lifetime: free things in any order, when no call uses them. Once a model, pool or render mesh is
   freed, what was created with it may only be freed. Pools belong to the process that created them:
   after fork(), calls in the child use only the calling thread, and freeing the pool there is
   allowed. Pointers returned by queries are valid until the model is freed.
   Conventions: transforms are 3x4 matrices, row by row, that map column vectors. `world_from_bone`
   maps points from the bone's frame to the world. Units, up axis and handedness are the file's.
   Errors: no function throws or aborts; the library is built without exceptions. Only queries
   require valid arguments without checking them.
   Stability: within a major version functions are only added. Files of format version 1 to
   UNDERSTUDY_FORMAT_VERSION are read.
   Limits: a file has fewer than 2^31 of anything (vertices, bones, weights per array, ...). */
/* clang-format on */
#ifndef UNDERSTUDY_H
#define UNDERSTUDY_H

#include <stddef.h>
#include <stdint.h>

#define UNDERSTUDY_VERSION "0.1.0"
#define UNDERSTUDY_FORMAT_VERSION 2

#if defined(UNDERSTUDY_SHARED) && defined(_WIN32)
#if defined(UNDERSTUDY_BUILDING)
#define UNDERSTUDY_API __declspec(dllexport)
#else
#define UNDERSTUDY_API __declspec(dllimport)
#endif
#elif defined(__GNUC__)
#define UNDERSTUDY_API __attribute__((visibility("default")))
#else
#define UNDERSTUDY_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct understudy_model understudy_model;     /* a loaded file */
typedef struct understudy_pool understudy_pool;       /* helper threads */
typedef struct understudy_scratch understudy_scratch; /* working memory of one caller */

typedef enum understudy_status {
    UNDERSTUDY_OK = 0,
    UNDERSTUDY_MISSING_ARGUMENT = 1, /* a pointer that this model needs is NULL */
    UNDERSTUDY_NOT_FINITE = 2,       /* bones or controls contain NaN, infinity or more than 1e18 */
    UNDERSTUDY_WRONG_SCRATCH = 3,    /* the scratch was created for another model or purpose */
    UNDERSTUDY_OVERLAP = 4,          /* an output overlaps an input or the other output */
    UNDERSTUDY_WRONG_STRIDE = 5      /* a stride is less than one item, or no multiple of 4 */
} understudy_status;                 /* any status but OK: the output was not written */

/* How an engine stores the transform of a bone. */
typedef enum understudy_bone_format {
    UNDERSTUDY_BONES_3X4_ROWS = 0,    /* 12 numbers, row by row: that of this library */
    UNDERSTUDY_BONES_4X4_COLUMNS = 1, /* 16 numbers, column after column: glTF, OpenGL, Unity */
    UNDERSTUDY_BONES_PARTS = 2        /* 10 numbers: translation x y z, quaternion x y z w, scale */
} understudy_bone_format;

typedef enum understudy_number { UNDERSTUDY_FLOAT = 0, UNDERSTUDY_DOUBLE = 1 } understudy_number;

/* The host's memory. Both functions must be thread-safe.

   allocate  returns `size` bytes (more than 0) at an address that is a multiple of `alignment` (a
             power of two, at most 64), or NULL if memory is short
   release   frees them; `size` is that of the allocation
   user      is passed to both */
typedef struct understudy_allocator {
    void* (*allocate)(void* user, size_t size, size_t alignment);
    void (*release)(void* user, void* data, size_t size);
    void* user;
} understudy_allocator;

/* The host's threads.

   run      calls job(context, 0) to job(context, count - 1), each once, on any threads and in any
            order, and returns when all have returned. The calling thread may run jobs too; it is
            correct, though not fast, to run them one after the other. `count` is at most `threads`.
   threads  the most jobs of one call, 1 to 64; other values are clamped. Working memory of a
            scratch is proportional to it.
   user     is passed to `run` */
typedef struct understudy_jobs {
    void (*run)(void* user, uint32_t count, void (*job)(void* context, uint32_t number),
                void* context);
    void* user;
    int threads;
} understudy_jobs;

/* The version of the library that is linked, for example "0.1.0"; compare it with
   UNDERSTUDY_VERSION, that of this header. */
UNDERSTUDY_API const char* understudy_version(void);

/* An `understudy_status` as a sentence without a period, in English; any number is allowed. */
UNDERSTUDY_API const char* understudy_status_text(int status);

/* ---- Loading -------------------------------------------------------------------------------- */

/* Loads a file from memory. Returns NULL if the data is not a valid deformer or memory is short.

   data          the whole file; not needed after the call
   size          its length in bytes
   message       receives one sentence that says what is wrong, or "" on success; it is truncated to
                 `message_size` bytes and always zero-terminated
   message_size  bytes in `message`; 0: `message` may be NULL

   The reader trusts nothing: malformed data of any kind gives NULL and a message, never a crash.
   Thread-safe. Free the model with understudy_free_model. */
UNDERSTUDY_API understudy_model* understudy_load_memory(const void* data, size_t size,
                                                        char* message, size_t message_size);

/* The same from a file. `path` is passed to fopen. Thread-safe. */
UNDERSTUDY_API understudy_model* understudy_load_file(const char* path, char* message,
                                                      size_t message_size);

/* The same with memory of the host. NULL: the C library's memory. The model keeps a copy of
   `allocator`; scratches of the model use it too. */
UNDERSTUDY_API understudy_model* understudy_load_memory_with(const understudy_allocator* allocator,
                                                             const void* data, size_t size,
                                                             char* message, size_t message_size);
UNDERSTUDY_API understudy_model* understudy_load_file_with(const understudy_allocator* allocator,
                                                           const char* path, char* message,
                                                           size_t message_size);

/* What a file consists of, in memory: one array, text or list of texts of docs/file-format.md.

   name     that in the file
   type     of an array, as safetensors calls it: "F32"; of texts "TEXT"
   axes     how many lengths there are; of a text 0, of a list of texts 1
   lengths  of each axis; may be NULL without axes
   data     the numbers, at any address; of texts their bytes in UTF-8, each text ended by a zero */
typedef struct understudy_entry {
    const char* name;
    const char* type;
    size_t axes;
    const size_t* lengths;
    const void* data;
} understudy_entry;

/* The same as understudy_load_memory_with, from entries instead of a file. The format version and
   objects (provenance, errors) are not needed. Sizes are trusted: `data` must hold what `lengths`
   say, and names differ. Entries and what they refer to are not needed after the call. */
UNDERSTUDY_API understudy_model* understudy_load_entries_with(const understudy_allocator* allocator,
                                                              const understudy_entry* entries,
                                                              size_t count, char* message,
                                                              size_t message_size);

/* Frees a model; NULL is allowed. See Lifetime above. */
UNDERSTUDY_API void understudy_free_model(understudy_model* model);

/* ---- Queries -------------------------------------------------------------------------------- */

/* `model` must not be NULL and indices must be below the corresponding count; neither is checked.
   Returned texts are UTF-8. Returned pointers are valid until the model is freed. Thread-safe. */

/* At least 1. */
UNDERSTUDY_API size_t understudy_vertex_count(const understudy_model* model);
/* 0: the deformer is driven by controls alone. */
UNDERSTUDY_API size_t understudy_bone_count(const understudy_model* model);
UNDERSTUDY_API size_t understudy_control_count(const understudy_model* model);
/* Whether `understudy_deform` needs controls (1) or may get NULL (0). */
UNDERSTUDY_API int understudy_reads_controls(const understudy_model* model);

UNDERSTUDY_API const char* understudy_bone_name(const understudy_model* model, size_t bone);
/* The index of the parent, which is below that of the bone; -1: the bone is a root. */
UNDERSTUDY_API int understudy_bone_parent(const understudy_model* model, size_t bone);
UNDERSTUDY_API const char* understudy_control_name(const understudy_model* model, size_t control);
/* The unit of a control, for example "deg"; may be empty. */
UNDERSTUDY_API const char* understudy_control_unit(const understudy_model* model, size_t control);
/* The range that the deformer was fitted to, and the values of the rest pose: 1 number per control.
   Values outside the range are allowed. */
UNDERSTUDY_API const double* understudy_control_low(const understudy_model* model);
UNDERSTUDY_API const double* understudy_control_high(const understudy_model* model);
UNDERSTUDY_API const double* understudy_control_rest(const understudy_model* model);
/* The method that fitted the deformer, for example "fdda". */
UNDERSTUDY_API const char* understudy_method(const understudy_model* model);
/* The unit of length, for example "cm"; may be empty. */
UNDERSTUDY_API const char* understudy_unit(const understudy_model* model);
/* "Y" or "Z"; "unknown" or empty where the file does not say. */
UNDERSTUDY_API const char* understudy_up_axis(const understudy_model* model);
/* "right" or "left"; empty where the file does not say. */
UNDERSTUDY_API const char* understudy_handedness(const understudy_model* model);

/* world_from_bone of all bones in the rest pose, 12 numbers each. */
UNDERSTUDY_API const double* understudy_rest_bones(const understudy_model* model);
/* Positions of all vertices in the rest pose, 3 numbers each. */
UNDERSTUDY_API const float* understudy_rest_positions(const understudy_model* model);
/* Triangles, 3 vertex indices each; polygons of the file are triangulated as fans. */
UNDERSTUDY_API size_t understudy_triangle_count(const understudy_model* model);
UNDERSTUDY_API const int32_t* understudy_triangles(const understudy_model* model);
/* Bytes of weights, bases, skin and rest positions that one call reads. */
UNDERSTUDY_API size_t understudy_model_bytes(const understudy_model* model);

/* Clips: the motion that came with a mesh sequence. */
UNDERSTUDY_API size_t understudy_clip_count(const understudy_model* model);
UNDERSTUDY_API const char* understudy_clip_name(const understudy_model* model, size_t clip);
/* At least 1. */
UNDERSTUDY_API size_t understudy_clip_frame_count(const understudy_model* model, size_t clip);
/* Frames per second; 0: unknown. */
UNDERSTUDY_API double understudy_clip_frame_rate(const understudy_model* model, size_t clip);
/* world_from_bone of all bones in one frame: pass it to `understudy_deform`. */
UNDERSTUDY_API const double* understudy_clip_frame(const understudy_model* model, size_t clip,
                                                   size_t frame);

/* ---- Playing -------------------------------------------------------------------------------- */

/* Creates a pool of threads. Returns NULL if the system refuses a thread or memory is short.

   threads  threads that work on one call, the caller included: 1 to 64; other values are clamped

   Helpers spin for about 100 microseconds after a call, then sleep. One call at a time uses a pool;
   a second one works alone. Thread-safe. */
UNDERSTUDY_API understudy_pool* understudy_create_pool(int threads);

/* The same with memory of the host; NULL: the C library's. The stacks of the threads are the
   system's. */
UNDERSTUDY_API understudy_pool* understudy_create_pool_with(const understudy_allocator* allocator,
                                                            int threads);

/* Creates a pool that runs on threads of the host and starts none. A call of `understudy_deform`
   calls `jobs->run` about six times, from the thread that called it. Returns NULL if `jobs` or
   `jobs->run` is NULL or memory is short. `jobs` is copied.

   To run one job per character instead, give each character a scratch without a pool and call
   `understudy_deform` inside the job: that is faster where there are more characters than
   threads. */
UNDERSTUDY_API understudy_pool* understudy_create_pool_from_jobs(
    const understudy_allocator* allocator, const understudy_jobs* jobs);

/* Ends the threads and frees a pool; NULL is allowed. See Lifetime above. */
UNDERSTUDY_API void understudy_free_pool(understudy_pool* pool);

/* Creates the working memory for calls with this model. Returns NULL if `model` is NULL or memory
   is short.

   pool   NULL: calls use only the calling thread

   One scratch serves one call at a time. Use one per calling thread. */
UNDERSTUDY_API understudy_scratch* understudy_create_scratch(const understudy_model* model,
                                                             understudy_pool* pool);

/* Frees a scratch; NULL is allowed. See Lifetime above. */
UNDERSTUDY_API void understudy_free_scratch(understudy_scratch* scratch);

/* Converts `world_from_bone` from another format.

   format, number   how `bones` is stored
   bones            the first bone
   stride           bytes from one bone to the next: at least those of one bone
   count            bones; more than one pose of them may follow each other
   world_from_bone  receives 12 numbers per bone

   Returns UNDERSTUDY_MISSING_ARGUMENT if a pointer is NULL or the format is none of those above,
   and UNDERSTUDY_WRONG_STRIDE if bones would overlap.
   Bones must be relative to the world, not to their parents, and in the file's unit and axes. */
UNDERSTUDY_API understudy_status understudy_convert_bones(understudy_bone_format format,
                                                          understudy_number number,
                                                          const void* bones, size_t stride,
                                                          size_t count, double* world_from_bone);

/* Whether the controls determine all bones (1), so that a game needs no rig. Without checks of the
   model, as the queries. */
UNDERSTUDY_API int understudy_poses_bones(const understudy_model* model);

/* Computes the bones of one pose from the controls of the rig that was learned.

   model            one with `understudy_poses_bones`; else UNDERSTUDY_MISSING_ARGUMENT is returned
   controls         1 number per control, finite and at most 1e18 in magnitude; those of the rest
                    pose are `understudy_control_rest`
   world_from_bone  receives 12 numbers per bone, for `understudy_deform`. It must not overlap the
                    controls

   Does not allocate. Thread-safe. */
UNDERSTUDY_API understudy_status understudy_pose_bones(const understudy_model* model,
                                                       const double* controls,
                                                       double* world_from_bone);

/* Computes one pose.

   model, scratch   the scratch must have been created for this model
   world_from_bone  12 numbers per bone; may be NULL if there are no bones
   controls         1 number per control; may be NULL if `understudy_reads_controls` is 0
   positions        receives 3 numbers per vertex
   normals          receives 3 numbers per vertex: the area-weighted normal, of unit length, or zero
                    if the triangles around the vertex have no area; NULL: not computed

   Bones and controls must be finite and at most 1e18 in magnitude. The outputs must overlap neither
   the inputs nor each other. Does not allocate. Thread-safe with a scratch per thread. */
UNDERSTUDY_API understudy_status understudy_deform(const understudy_model* model,
                                                   understudy_scratch* scratch,
                                                   const double* world_from_bone,
                                                   const double* controls, float* positions,
                                                   float* normals);

/* Computes many poses, for example of a crowd or a clip.

   pose_count  any number; 0 does nothing
   others      as above, pose after pose

   Sixteen poses are computed together, so that each weight is read once for all of them. A pose
   then takes less than half the time of a single one. The remainder of a division by 16, and
   dual-quaternion skins, gain less. */
UNDERSTUDY_API understudy_status understudy_deform_many(
    const understudy_model* model, understudy_scratch* scratch, size_t pose_count,
    const double* world_from_bone, const double* controls, float* positions, float* normals);

/* ---- Levels of detail ------------------------------------------------------------------------ */

/* `understudy export --lod` writes a deformer of a coarser mesh with the networks of the original.
   To draw several levels of one character in one pose, or to change between them, compute the
   coefficients once, with any of them:

       understudy_coefficients(fine, scratch, bones, controls, coefficients);
       understudy_deform_coefficients(fine, scratch, bones, coefficients, positions, normals);
       understudy_deform_coefficients(coarse, other, bones, coefficients, fewer, NULL); */

/* Whether coefficients of one model can drive the other (1) or not (0): both have the same bones,
   features and networks, and bases that read the same coefficients. Compares every weight.
   Thread-safe. */
UNDERSTUDY_API int understudy_shares_coefficients(const understudy_model* model,
                                                  const understudy_model* other);

/* The same as `understudy_deform`, with the same bits, from coefficients of
   `understudy_coefficients`.

   coefficients  `understudy_gpu_counts.coefficients` numbers, finite and at most 1e18 in magnitude;
                 may be NULL if there are none
   others        as for `understudy_deform` */
UNDERSTUDY_API understudy_status understudy_deform_coefficients(const understudy_model* model,
                                                                understudy_scratch* scratch,
                                                                const double* world_from_bone,
                                                                const float* coefficients,
                                                                float* positions, float* normals);

/* ---- The engine's vertices ------------------------------------------------------------------- */

/* Engines split a vertex where the corners of polygons around it have different texture coordinates
   or normals. A render mesh is built once from what the file has. Render vertex v is vertex v of
   the deformer; further copies of split vertices follow, ordered by the vertex that they copy. */
typedef struct understudy_render_mesh understudy_render_mesh;

/* Triangles first_index / 3 to (first_index + index_count) / 3, which have one material. */
typedef struct understudy_submesh {
    uint32_t material;
    uint32_t first_index;
    uint32_t index_count;
} understudy_submesh;

/* Creates the render mesh. Returns NULL if `model` is NULL or memory is short. It never changes;
   any number of scratches may use it. */
UNDERSTUDY_API understudy_render_mesh* understudy_create_render_mesh(const understudy_model* model);
/* Frees a render mesh; NULL is allowed. See Lifetime above. */
UNDERSTUDY_API void understudy_free_render_mesh(understudy_render_mesh* mesh);

/* Queries: `mesh` and `model` must not be NULL; returned pointers are valid until these are
   freed. */
UNDERSTUDY_API size_t understudy_render_vertex_count(const understudy_render_mesh* mesh);
/* Per render vertex: the vertex of the deformer that it copies. */
UNDERSTUDY_API const uint32_t* understudy_render_vertices(const understudy_render_mesh* mesh);
/* 2 numbers per render vertex; NULL: the file has no texture coordinates. */
UNDERSTUDY_API const float* understudy_render_uvs(const understudy_render_mesh* mesh);
/* 3 render vertices per triangle; triangles of one material follow each other. */
UNDERSTUDY_API size_t understudy_render_index_count(const understudy_render_mesh* mesh);
UNDERSTUDY_API const uint32_t* understudy_render_indices(const understudy_render_mesh* mesh);
UNDERSTUDY_API size_t understudy_submesh_count(const understudy_render_mesh* mesh);
UNDERSTUDY_API understudy_submesh understudy_submesh_at(const understudy_render_mesh* mesh,
                                                        size_t number);
/* Materials by name; a submesh of a file without materials has material 0. */
UNDERSTUDY_API size_t understudy_material_count(const understudy_model* model);
UNDERSTUDY_API const char* understudy_material_name(const understudy_model* model, size_t material);
/* Parts: named sets of vertices of the deformer, for example "eyes". */
UNDERSTUDY_API size_t understudy_part_count(const understudy_model* model);
UNDERSTUDY_API const char* understudy_part_name(const understudy_model* model, size_t part);
UNDERSTUDY_API size_t understudy_part_vertex_count(const understudy_model* model, size_t part);
UNDERSTUDY_API const int32_t* understudy_part_vertices(const understudy_model* model, size_t part);

/* The engine's vertex buffer: the address of the first vertex's attribute, and bytes from one
   vertex to the next: at least those of the attribute. Addresses and strides are multiples of 4.
   Nothing else in it is written.

   positions  3 floats per render vertex
   normals    3 floats: of the triangles that share the corner normal of the file, weighted by area,
              of unit length or zero; NULL: not computed
   tangents   4 floats: along the first texture coordinate, of unit length and perpendicular to the
              normal, then the sign of the bitangent, -1 or 1; NULL: not computed. The file must
              have texture coordinates. They are not those of MikkTSpace. */
typedef struct understudy_vertex_buffer {
    void* positions;
    size_t position_stride;
    void* normals;
    size_t normal_stride;
    void* tangents;
    size_t tangent_stride;
} understudy_vertex_buffer;

/* The same as `understudy_create_scratch`, for `understudy_deform_render` too. `mesh` must be a
   render mesh of the model; NULL: the render vertices are the vertices. */
UNDERSTUDY_API understudy_scratch* understudy_create_render_scratch(
    const understudy_model* model, understudy_pool* pool, const understudy_render_mesh* mesh);

/* Computes one pose into the engine's vertex buffer. `buffer` may lie in memory that is mapped for
   the GPU: it is never read, and each task writes consecutive vertices. Does not allocate.

   scratch  from `understudy_create_render_scratch`; it knows the render mesh
   others   as for `understudy_deform` */
UNDERSTUDY_API understudy_status understudy_deform_render(const understudy_model* model,
                                                          understudy_scratch* scratch,
                                                          const double* world_from_bone,
                                                          const double* controls,
                                                          const understudy_vertex_buffer* buffer);

/* ---- Poses outside the training data ------------------------------------------------------ */

/* Whether the file has the range of its training poses. Then coefficients stay inside their range,
   and correctives fade out as a pose leaves the data. */
UNDERSTUDY_API int understudy_is_bounded(const understudy_model* model);
/* Computes how far one pose lies from the training poses, as the largest distance of a bone or
   control that networks read.

   model, scratch, world_from_bone, controls  as for `understudy_deform`
   distance  receives one number: at most 1 for every training pose; correctives fade from 1 on. 0
             where the file has no range

   Does not allocate. Thread-safe with a scratch per thread. */
UNDERSTUDY_API understudy_status understudy_distance_from_data(const understudy_model* model,
                                                               understudy_scratch* scratch,
                                                               const double* world_from_bone,
                                                               const double* controls,
                                                               float* distance);

/* ---- On the GPU ----------------------------------------------------------------------------- */

/* The networks run on the CPU and give a few hundred coefficients; bases and skin run on the GPU.
   examples/gpu/correctives.wgsl is a compute shader that does both from the arrays below. */

/* Computes the coefficients of one pose: everything before the bases.

   model, scratch, world_from_bone, controls  as for `understudy_deform`
   coefficients  receives `understudy_gpu_counts.coefficients` numbers, basis after basis

   Does not allocate. Thread-safe with a scratch per thread. */
UNDERSTUDY_API understudy_status understudy_coefficients(const understudy_model* model,
                                                         understudy_scratch* scratch,
                                                         const double* world_from_bone,
                                                         const double* controls,
                                                         float* coefficients);

/* Computes the transforms that the skin blends: world_from_rest of every bone, or of every virtual
   bone if there are any, or one identity if there are no bones.

   transforms  receives 12 numbers, 3x4 row by row, for each of `understudy_gpu_counts.transforms`

   A dual-quaternion skin blends the same transforms in its own way. Positions far from the origin
   lose precision, because the transforms are single. Does not allocate. */
UNDERSTUDY_API understudy_status understudy_transforms(const understudy_model* model,
                                                       understudy_scratch* scratch,
                                                       const double* world_from_bone,
                                                       float* transforms);

typedef struct understudy_gpu_counts {
    size_t vertices;
    size_t coefficients;
    size_t entries;        /* pairs of a vertex and a basis that moves it */
    size_t matrix_numbers; /* of all bases */
    size_t influences;     /* per vertex */
    size_t transforms;
} understudy_gpu_counts;

/* Memory of the caller for the model's constant data. NULL: not wanted.

   rest                  4 numbers per vertex: rest position plus mean, then 1
   entry_starts          vertices + 1 numbers: entries entry_starts[v] to entry_starts[v + 1] move v
   entries               4 numbers per entry: m, step, c, n. The entry adds to the rest position
                             sum over k < n of  matrices[m + k step + axis] coefficients[c + k]
                         or, if the highest bit of n is set, with n without that bit,
                             sum over k < n of  matrices[m + k step] coefficients[c + axis n + k]
   matrices              matrix_numbers floats: basis after basis, component after component,
                         vertex after vertex; neighbouring threads read neighbouring numbers
   influence_transforms  influences per vertex: indices of transforms
   influence_weights     influences per vertex */
typedef struct understudy_gpu_arrays {
    float* rest;
    uint32_t* entry_starts;
    uint32_t* entries;
    float* matrices;
    uint32_t* influence_transforms;
    float* influence_weights;
} understudy_gpu_arrays;

/* `model` must not be NULL. Thread-safe. */
UNDERSTUDY_API understudy_gpu_counts understudy_count_gpu_arrays(const understudy_model* model);

/* Fills the arrays. Returns 0 if a pointer is NULL or memory is short, otherwise 1. Thread-safe. */
UNDERSTUDY_API int understudy_fill_gpu_arrays(const understudy_model* model,
                                              const understudy_gpu_arrays* arrays);

/* ---- Processors ----------------------------------------------------------------------------- */

/* The instruction set in use: "avx512", "avx2", "neon", "simd128" or "portable". Thread-safe. */
UNDERSTUDY_API const char* understudy_instruction_set(void);

/* Selects another instruction set for all later calls of the process, for measurements and tests.
   Returns 1, or 0 if this processor or this build does not have it. Results differ in the last
   bits. Thread-safe. */
UNDERSTUDY_API int understudy_select_instruction_set(const char* name);

#ifdef __cplusplus
}
#endif
#endif
