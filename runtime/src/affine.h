// 3x4 transforms in double precision, row by row: 12 numbers each. Bones may scale and shear; nothing here assumes rotations.
#pragma once

namespace understudy {

double determinant(const double* a);
// out = a b: first b, then a. `out` may be neither of them.
void compose(const double* a, const double* b, double* out);
// The inverse of an invertible transform.
void invert(const double* a, double* out);
// The inverse where there is one; nearly singular transforms are inverted with their small singular values raised to 1e-3 of the largest.
void bounded_invert(const double* a, double* out);

// X = R S of a 3x3 matrix (row by row, 9 numbers): R a proper rotation, S symmetric. A mirroring X keeps its reflection in S.
void polar(const double* x, double* rotation, double* stretch);
// The unit quaternion (real part first) of a rotation, 9 numbers.
void quaternion_of(const double* rotation, double* quaternion);

}  // namespace understudy
