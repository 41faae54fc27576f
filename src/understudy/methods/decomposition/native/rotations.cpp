// The rotation nearest to a 3x3 matrix.
#include <algorithm>
#include <cmath>

#include "decompose.h"

namespace understudy {
namespace {

// Writes the rotation matrix of a unit quaternion.
void rotation_of(double w, double x, double y, double z, double* r) {
    const double rotation[9] = {
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z),     2 * (x * z + w * y),
        2 * (x * y + w * z),     1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y),     2 * (y * z + w * x),     1 - 2 * (x * x + y * y)};
    std::copy(rotation, rotation + 9, r);
}

// The eigenvector of the largest eigenvalue of a symmetric, trace-free 4x4 matrix: Newton's method
// on the characteristic polynomial, from above (Theobald 2005), then the largest column of the
// adjugate. Returns false where that is inaccurate, as with two (nearly) equal largest eigenvalues.
bool top_eigenvector(const double n[4][4], double size, double* q) {
    double c2 = 0, frobenius = 0;
    for (int a = 0; a < 4; ++a)
        for (int b = 0; b < 4; ++b) frobenius += n[a][b] * n[a][b];
    c2 = -frobenius / 2;  // the trace is zero
    double cube = 0;
    double square[4][4];
    for (int a = 0; a < 4; ++a)
        for (int b = 0; b < 4; ++b) {
            square[a][b] = 0;
            for (int k = 0; k < 4; ++k) square[a][b] += n[a][k] * n[k][b];
        }
    double fourth = 0;
    for (int a = 0; a < 4; ++a)
        for (int b = 0; b < 4; ++b)
            cube += square[a][b] * n[b][a], fourth += square[a][b] * square[b][a];
    const double c1 = -cube / 3,
                 c0 = frobenius * frobenius / 8 - fourth / 4;  // x^4 + c2 x^2 + c1 x + c0
    double x = std::sqrt(0.75 * frobenius);  // upper bound of the eigenvalues of a trace-free 4x4
    for (int step = 0; step < 40; ++step) {
        const double value = ((x * x + c2) * x + c1) * x + c0,
                     slope = (4 * x * x + 2 * c2) * x + c1;
        if (!(slope > 0)) return false;
        const double change = value / slope;
        x -= change;
        if (std::abs(change) <= 1e-15 * size) break;
    }
    double m[4][4];
    for (int a = 0; a < 4; ++a)
        for (int b = 0; b < 4; ++b) m[a][b] = n[a][b] - (a == b ? x : 0.0);
    double best = 0;
    for (int row = 0; row < 4; ++row) {  // row of the adjugate, up to sign
        double v[4];
        const double* p[3];
        for (int a = 0, k = 0; a < 4; ++a)
            if (a != row) p[k++] = m[a];
        for (int col = 0; col < 4; ++col) {
            const int i = col == 0 ? 1 : 0, j = col <= 1 ? 2 : 1, k = col <= 2 ? 3 : 2;
            const double minor = p[0][i] * (p[1][j] * p[2][k] - p[1][k] * p[2][j]) -
                                 p[0][j] * (p[1][i] * p[2][k] - p[1][k] * p[2][i]) +
                                 p[0][k] * (p[1][i] * p[2][j] - p[1][j] * p[2][i]);
            v[col] = col % 2 ? -minor : minor;
        }
        const double length = v[0] * v[0] + v[1] * v[1] + v[2] * v[2] + v[3] * v[3];
        if (length > best) {
            best = length;
            std::copy(v, v + 4, q);
        }
    }
    const double length = std::sqrt(best);
    if (!(length > 1e-6 * size * size * size)) return false;
    for (int a = 0; a < 4; ++a) q[a] /= length;
    for (int a = 0; a < 4; ++a) {
        double residual = -x * q[a];
        for (int b = 0; b < 4; ++b) residual += n[a][b] * q[b];
        if (std::abs(residual) > 1e-11 * size) return false;
    }
    return true;
}

// The rotation that maximises tr(R^T H), as a quaternion, is the top eigenvector of a symmetric 4x4
// matrix (Horn 1987). Jacobi rotations find it where `top_eigenvector` is inaccurate.
void nearest_rotation(const double* h, double* r) {
    double n[4][4] = {{h[0] + h[4] + h[8], h[7] - h[5], h[2] - h[6], h[3] - h[1]},
                      {0, h[0] - h[4] - h[8], h[3] + h[1], h[2] + h[6]},
                      {0, 0, h[4] - h[0] - h[8], h[7] + h[5]},
                      {0, 0, 0, h[8] - h[0] - h[4]}};
    double v[4][4] = {{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}};
    double size = 0;
    for (int a = 0; a < 4; ++a)
        for (int b = a; b < 4; ++b) size = std::max(size, std::abs(n[a][b])), n[b][a] = n[a][b];
    double quick[4];
    if (top_eigenvector(n, size, quick))
        return rotation_of(quick[0], quick[1], quick[2], quick[3], r);
    for (int sweep = 0; sweep < 12; ++sweep) {
        double off = 0;
        for (int a = 0; a < 4; ++a)
            for (int b = a + 1; b < 4; ++b) off = std::max(off, std::abs(n[a][b]));
        if (off <= 1e-15 * size) break;
        for (int a = 0; a < 4; ++a)
            for (int b = a + 1; b < 4; ++b) {
                if (std::abs(n[a][b]) <= 1e-18 * size) continue;
                const double theta = (n[b][b] - n[a][a]) / (2 * n[a][b]);
                const double t =
                    (theta >= 0 ? 1.0 : -1.0) / (std::abs(theta) + std::sqrt(theta * theta + 1));
                const double c = 1 / std::sqrt(t * t + 1), s = t * c;
                for (int k = 0; k < 4; ++k) {
                    const double x = n[k][a], y = n[k][b];
                    n[k][a] = c * x - s * y, n[k][b] = s * x + c * y;
                }
                for (int k = 0; k < 4; ++k) {
                    const double x = n[a][k], y = n[b][k];
                    n[a][k] = c * x - s * y, n[b][k] = s * x + c * y;
                    const double p = v[k][a], q = v[k][b];
                    v[k][a] = c * p - s * q, v[k][b] = s * p + c * q;
                }
            }
    }
    int top = 0;
    for (int a = 1; a < 4; ++a)
        if (n[a][a] > n[top][top]) top = a;
    const double w = v[0][top], x = v[1][top], y = v[2][top], z = v[3][top];
    const double length = std::sqrt(w * w + x * x + y * y + z * z);
    rotation_of(w / length, x / length, y / length, z / length, r);
}

}  // namespace

void nearest_rotations(std::int64_t count, const double* matrices, double* rotations) {
    for (std::int64_t n = 0; n < count; ++n) nearest_rotation(matrices + 9 * n, rotations + 9 * n);
}

}  // namespace understudy
