// 3x4 transforms in double precision, row by row: 12 numbers each. Bones may scale and shear;
// nothing here assumes rotations.
#pragma once

namespace understudy {

double determinant(const double* a);
// out = a b (b is applied first). `out` must be neither of them.
void compose(const double* a, const double* b, double* out);
// Inverts an invertible transform.
void invert(const double* a, double* out);
// Inverts any transform. Singular values below 1e-3 of the largest are raised to that.
void bounded_invert(const double* a, double* out);

// X = R S of a 3x3 matrix (row by row, 9 numbers): R is a proper rotation, S is symmetric. If X
// mirrors, S contains the reflection.
void polar(const double* x, double* rotation, double* stretch);
// The unit quaternion (real part first) of a rotation (9 numbers).
void quaternion_of(const double* rotation, double* quaternion);

}  // namespace understudy
