#include "affine.h"

#include <algorithm>
#include <cmath>

#include "sorting.h"

namespace understudy {
namespace {

// The smallest ratio of a transform's axes: a smaller one is treated as this.
constexpr double kFlattest = 1e-3;

void cross(const double* a, const double* b, double* out) {
    out[0] = a[1] * b[2] - a[2] * b[1];
    out[1] = a[2] * b[0] - a[0] * b[2];
    out[2] = a[0] * b[1] - a[1] * b[0];
}

double dot(const double* a, const double* b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

bool normalise(double* a, double smallest) {
    const double length = std::sqrt(dot(a, a));
    if (!(length > smallest)) return false;
    for (int i = 0; i < 3; ++i) a[i] /= length;
    return true;
}

// A unit vector perpendicular to unit vector a.
void perpendicular(const double* a, double* out) {
    const int least = std::abs(a[0]) < std::abs(a[1]) ? (std::abs(a[0]) < std::abs(a[2]) ? 0 : 2)
                                                      : (std::abs(a[1]) < std::abs(a[2]) ? 1 : 2);
    double axis[3] = {0, 0, 0};
    axis[least] = 1;
    cross(a, axis, out);
    normalise(out, 0);
}

// X = U diag(sigma) V^T. U and V are proper rotations; u[i] and v[i] are singular vectors. The
// values of sigma decrease; only the last may be negative.
struct Svd {
    double u[3][3], v[3][3], sigma[3];

    explicit Svd(const double* x) {
        // Scaled to about one, so that squares of tiny or huge numbers neither vanish nor overflow.
        double largest = 0;
        for (int i = 0; i < 9; ++i) largest = std::max(largest, std::abs(x[i]));
        const double scale = largest > 0 ? largest : 1;
        double m[9];
        for (int i = 0; i < 9; ++i) m[i] = x[i] / scale;
        decompose(m);
        for (double& s : sigma) s *= scale;
    }

private:
    void decompose(const double* m) {
        // Cyclic Jacobi on m^T m.
        double a[3][3],
            axes[3][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};  // rows converge to the eigenvectors
        for (int i = 0; i < 3; ++i)
            for (int j = 0; j < 3; ++j)
                a[i][j] = m[i] * m[j] + m[3 + i] * m[3 + j] + m[6 + i] * m[6 + j];
        for (int sweep = 0; sweep < 30; ++sweep) {
            const double off = a[0][1] * a[0][1] + a[0][2] * a[0][2] + a[1][2] * a[1][2];
            if (off < 1e-40) break;
            for (int p = 0; p < 2; ++p)
                for (int q = p + 1; q < 3; ++q) rotate(a, axes, p, q);
        }
        int order[3] = {0, 1, 2};
        sort_items(order, 3, [&](int i, int j) { return a[i][i] > a[j][j]; });
        for (int i = 0; i < 2; ++i) std::copy(axes[order[i]], axes[order[i]] + 3, v[i]);
        cross(v[0], v[1], v[2]);
        for (int i = 0; i < 3; ++i)
            for (int row = 0; row < 3; ++row) u[i][row] = dot(m + 3 * row, v[i]);
        const double smallest = 1e-14;
        sigma[0] = std::sqrt(dot(u[0], u[0]));
        if (!normalise(u[0], smallest)) std::copy(v[0], v[0] + 3, u[0]);
        const double along = dot(u[0], u[1]);
        for (int i = 0; i < 3; ++i) u[1][i] -= along * u[0][i];
        sigma[1] = std::sqrt(dot(u[1], u[1]));
        if (!normalise(u[1], smallest)) perpendicular(u[0], u[1]);
        double third[3];
        cross(u[0], u[1], third);
        sigma[2] = dot(third, u[2]);
        std::copy(third, third + 3, u[2]);
    }

    static void rotate(double a[3][3], double axes[3][3], int p, int q) {
        if (a[p][q] == 0) return;
        const double theta = (a[q][q] - a[p][p]) / (2 * a[p][q]);
        const double t =
            (theta >= 0 ? 1.0 : -1.0) / (std::abs(theta) + std::sqrt(theta * theta + 1));
        const double c = 1 / std::sqrt(t * t + 1), s = t * c;
        for (int k = 0; k < 3; ++k) {
            const double kp = a[k][p], kq = a[k][q];
            a[k][p] = c * kp - s * kq;
            a[k][q] = s * kp + c * kq;
        }
        for (int k = 0; k < 3; ++k) {
            const double pk = a[p][k], qk = a[q][k];
            a[p][k] = c * pk - s * qk;
            a[q][k] = s * pk + c * qk;
        }
        for (int k = 0; k < 3; ++k) {
            const double pk = axes[p][k], qk = axes[q][k];
            axes[p][k] = c * pk - s * qk;
            axes[q][k] = s * pk + c * qk;
        }
    }
};

void linear_part(const double* a, double* x) {
    for (int row = 0; row < 3; ++row) std::copy(a + 4 * row, a + 4 * row + 3, x + 3 * row);
}

}  // namespace

double determinant(const double* a) {
    return a[0] * (a[5] * a[10] - a[6] * a[9]) - a[1] * (a[4] * a[10] - a[6] * a[8]) +
           a[2] * (a[4] * a[9] - a[5] * a[8]);
}

void compose(const double* a, const double* b, double* out) {
    for (int row = 0; row < 3; ++row) {
        const double* r = a + 4 * row;
        for (int column = 0; column < 4; ++column)
            out[4 * row + column] = r[0] * b[column] + r[1] * b[4 + column] + r[2] * b[8 + column];
        out[4 * row + 3] += r[3];
    }
}

void invert(const double* a, double* out) {
    const double scale = 1 / determinant(a);
    const double m[9] = {
        a[5] * a[10] - a[6] * a[9], a[2] * a[9] - a[1] * a[10], a[1] * a[6] - a[2] * a[5],
        a[6] * a[8] - a[4] * a[10], a[0] * a[10] - a[2] * a[8], a[2] * a[4] - a[0] * a[6],
        a[4] * a[9] - a[5] * a[8],  a[1] * a[8] - a[0] * a[9],  a[0] * a[5] - a[1] * a[4]};
    for (int row = 0; row < 3; ++row) {
        for (int column = 0; column < 3; ++column)
            out[4 * row + column] = scale * m[3 * row + column];
        out[4 * row + 3] =
            -(out[4 * row] * a[3] + out[4 * row + 1] * a[7] + out[4 * row + 2] * a[11]);
    }
}

void bounded_invert(const double* a, double* out) {
    double squares = 0;
    for (int row = 0; row < 3; ++row) squares += dot(a + 4 * row, a + 4 * row);
    const double size = std::max(std::sqrt(squares), 1e-12);
    if (std::abs(determinant(a)) >= 10 * kFlattest * size * size * size) return invert(a, out);
    double x[9], raised[12];
    linear_part(a, x);
    Svd parts(x);
    const double least = kFlattest * std::max(parts.sigma[0], 1e-12);
    for (double& sigma : parts.sigma)
        sigma = std::copysign(std::max(std::abs(sigma), least), sigma);
    for (int row = 0; row < 3; ++row) {
        for (int column = 0; column < 3; ++column) {
            double sum = 0;
            for (int k = 0; k < 3; ++k)
                sum += parts.u[k][row] * parts.sigma[k] * parts.v[k][column];
            raised[4 * row + column] = sum;
        }
        raised[4 * row + 3] = a[4 * row + 3];
    }
    invert(raised, out);
}

void polar(const double* x, double* rotation, double* stretch) {
    const Svd parts(x);
    for (int row = 0; row < 3; ++row)
        for (int column = 0; column < 3; ++column) {
            double turned = 0, stretched = 0;
            for (int k = 0; k < 3; ++k) {
                turned += parts.u[k][row] * parts.v[k][column];
                stretched += parts.v[k][row] * parts.sigma[k] * parts.v[k][column];
            }
            rotation[3 * row + column] = turned;
            stretch[3 * row + column] = stretched;
        }
}

void quaternion_of(const double* r, double* quaternion) {
    // Four times the square of each component. Dividing by the largest loses the least precision.
    const double squares[4] = {1 + r[0] + r[4] + r[8], 1 + r[0] - r[4] - r[8],
                               1 - r[0] + r[4] - r[8], 1 - r[0] - r[4] + r[8]};
    const double a = r[7] - r[5], b = r[2] - r[6], c = r[3] - r[1], d = r[3] + r[1],
                 e = r[2] + r[6], f = r[7] + r[5];
    const double rows[4][4] = {
        {squares[0], a, b, c}, {a, squares[1], d, e}, {b, d, squares[2], f}, {c, e, f, squares[3]}};
    const double* best = rows[std::max_element(squares, squares + 4) - squares];
    const double length = std::sqrt(best[0] * best[0] + dot(best + 1, best + 1));
    for (int i = 0; i < 4; ++i) quaternion[i] = best[i] / length;
}

}  // namespace understudy
