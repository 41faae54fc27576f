// Converts bones from the formats of engines.
#include "../include/understudy.h"

namespace {

// Numbers first, first + 1, ... of one bone, in single or double precision.
class Numbers {
public:
    Numbers(const void* data, bool is_double) : data_(data), is_double_(is_double) {}
    double operator[](int i) const {
        return is_double_ ? static_cast<const double*>(data_)[i]
                          : double{static_cast<const float*>(data_)[i]};
    }

private:
    const void* data_;
    bool is_double_;
};

// Translation, quaternion (x, y, z, w) and scale. A quaternion of any length but zero is a
// rotation.
void from_parts(const Numbers& from, double* to) {
    const double x = from[3], y = from[4], z = from[5], w = from[6];
    const double square = x * x + y * y + z * z + w * w, s = square == 0 ? 0 : 2 / square;
    const double rotation[9] = {
        1 - s * (y * y + z * z), s * (x * y - w * z),     s * (x * z + w * y),
        s * (x * y + w * z),     1 - s * (x * x + z * z), s * (y * z - w * x),
        s * (x * z - w * y),     s * (y * z + w * x),     1 - s * (x * x + y * y)};
    for (int row = 0; row < 3; ++row) {
        for (int column = 0; column < 3; ++column)
            to[4 * row + column] = rotation[3 * row + column] * from[7 + column];
        to[4 * row + 3] = from[row];
    }
}

}  // namespace

extern "C" understudy_status understudy_convert_bones(understudy_bone_format format,
                                                      understudy_number number, const void* bones,
                                                      size_t stride, size_t count,
                                                      double* world_from_bone) {
    if (count && (!bones || !world_from_bone)) return UNDERSTUDY_MISSING_ARGUMENT;
    const size_t numbers = format == UNDERSTUDY_BONES_PARTS         ? 10
                           : format == UNDERSTUDY_BONES_4X4_COLUMNS ? 16
                                                                    : 12;
    const size_t size = number == UNDERSTUDY_DOUBLE ? sizeof(double) : sizeof(float);
    if (count > 1 && (stride < numbers * size || stride % 4)) return UNDERSTUDY_WRONG_STRIDE;
    for (size_t bone = 0; bone < count; ++bone) {
        const Numbers from(static_cast<const char*>(bones) + bone * stride,
                           number == UNDERSTUDY_DOUBLE);
        double* to = world_from_bone + 12 * bone;
        switch (format) {
            case UNDERSTUDY_BONES_3X4_ROWS:
                for (int i = 0; i < 12; ++i) to[i] = from[i];
                break;
            case UNDERSTUDY_BONES_4X4_COLUMNS:
                for (int i = 0; i < 12; ++i) to[i] = from[i % 4 * 4 + i / 4];
                break;
            case UNDERSTUDY_BONES_PARTS: from_parts(from, to); break;
            default: return UNDERSTUDY_MISSING_ARGUMENT;
        }
    }
    return UNDERSTUDY_OK;
}
