"""NumPy = C++ to 1e-5 of the character's height, for every kind of deformer, any number of threads,
one pose or many.
"""

import threading
import warnings
from dataclasses import replace

import numpy as np
import pytest
from builders import full_deformer
from parity.kinds import KINDS, drivers
from posing_builders import small_character

from understudy import Basis, ControlSpec, Deformer, Features, InputError
from understudy.geometry.normals import vertex_normals
from understudy.runtime import native as runtime

pytestmark = pytest.mark.skipif(
    runtime.compiled is None,
    reason="installed without a compiler: there is no compiled runtime to compare",
)


@pytest.fixture(params=KINDS, scope="module")
def kind(request):
    return KINDS[request.param]()


def close(deformer, got, want):
    size = max(deformer.mesh.height, float(np.ptp(deformer.mesh.vertices, axis=0).max()))
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * size)


def test_many_poses(kind):
    bones, controls = drivers(kind)
    close(kind, kind.deform(bones, controls, threads=1), kind.deform_reference(bones, controls))


def test_one_pose_and_many_agree(kind):
    bones, controls = drivers(kind)
    many = kind.deform(bones, controls)
    last_digits = 4 * np.spacing(np.abs(many).max())  # they sum in another order
    for t in range(len(many)):
        one = kind.deform(
            None if bones is None else bones[t], None if controls is None else controls[t]
        )
        assert one.shape == (kind.mesh.vertex_count, 3)
        np.testing.assert_allclose(one, many[t], rtol=0, atol=last_digits)


@pytest.mark.parametrize("name", ["posed", "posed-packed"])
def test_bones_from_controls(name):
    deformer = KINDS[name]()
    bones, controls = drivers(deformer)
    assert np.abs(bones - deformer.skeleton.world_from_bone).max() > 0.1
    packed = runtime.runtime_of(deformer)
    got = packed.bones_at(controls)
    np.testing.assert_allclose(got, bones, atol=1e-12 * np.abs(bones).max())
    np.testing.assert_array_equal(packed.bones_at(controls[0]), got[0])
    close(deformer, deformer.deform(None, controls), deformer.deform_reference(bones, controls))
    one = deformer.deform(got[0], controls[0])
    close(deformer, deformer.deform_reference(None, controls[0]), one)
    out = np.empty((deformer.mesh.vertex_count, 3), np.float32)
    np.testing.assert_array_equal(deformer.deform(None, controls[0], out=out), one)


def test_bones_from_wrong_controls_are_refused():
    deformer = KINDS["posed"]()
    with pytest.raises(InputError, match="controls"):
        deformer.deform(None, [1.0, np.nan])
    with pytest.raises(InputError, match="controls"):
        deformer.deform(None, [1.0, 2.0, 3.0])
    with pytest.raises(InputError, match="driven by bones"):
        KINDS["wide"]().deform(None, [1.0, 2.0])
    with pytest.raises(InputError, match="do not determine its bones"):
        small_character().posing.bones_at(np.zeros((1, 2)))


def test_distance_from_data(kind):
    bones, controls = drivers(kind)
    packed = runtime.runtime_of(kind)
    at = lambda values, t: None if values is None else values[t : t + 1]
    found = [
        packed.scratch().distance_from_data(
            at(bones, t), at(controls if kind.reads_controls else None, t)
        )
        for t in range(3)
    ]
    if kind.bounds is None:
        assert found == [0, 0, 0]
    else:
        want = kind.distance_from_data(bones, controls)[:3]
        np.testing.assert_allclose(found, want, rtol=1e-5)


@pytest.mark.parametrize("threads", [2, 3, 7])
def test_threads_change_no_bit(kind, threads):
    bones, controls = drivers(kind, 19)
    np.testing.assert_array_equal(
        kind.deform(bones, controls, threads=threads), kind.deform(bones, controls, threads=1)
    )


def test_normals(kind):
    bones, controls = drivers(kind, 19)
    vertices, normals = kind.deform(bones, controls, normals=True)
    np.testing.assert_allclose(normals, vertex_normals(vertices, kind.mesh.triangles), atol=2e-4)
    np.testing.assert_array_equal(vertices, kind.deform(bones, controls))


def test_far_from_the_origin(kind):
    if kind.skeleton is None:
        return
    bones, controls = drivers(kind, 19)
    bones[..., 3] += [1e6, -2e6, 5e5]
    got, want = kind.deform(bones, controls), kind.deform_reference(bones, controls)
    np.testing.assert_allclose(got, want, rtol=0, atol=2 * np.spacing(np.float32(2e6)))


def test_bones_scaled_to_nothing_leave_every_vertex_finite(kind):
    if kind.skeleton is None:
        return
    bones, controls = drivers(kind, 2)
    bones[0, 1, :, :3] = 0
    bones[1, :, :, :3] = 0
    assert np.isfinite(kind.deform(bones, controls)).all()


def test_out_is_written_in_place_and_returned():
    deformer = full_deformer()
    bones, controls = drivers(deformer, 4)
    out = np.empty((4, deformer.mesh.vertex_count, 3), np.float32)
    assert deformer.deform(bones, controls, out=out) is not None
    np.testing.assert_array_equal(out, deformer.deform(bones, controls))
    one = np.empty(out.shape[1:], np.float32)
    assert np.shares_memory(deformer.deform(bones[0], controls[0], out=one), one)
    np.testing.assert_allclose(one, out[0], rtol=0, atol=1e-6)


def test_out_of_many_poses_of_bones_alone_is_written():
    kind = KINDS["dense"]()
    bones, controls = drivers(kind, 3)
    assert controls is None
    out = np.empty((3, kind.mesh.vertex_count, 3), np.float32)
    kind.deform(bones, out=out)
    np.testing.assert_array_equal(out, kind.deform(bones))


def _read_only(shape):
    out = np.empty(shape, np.float32)
    out.flags.writeable = False
    return out


@pytest.mark.parametrize(
    "make",
    [
        np.empty,
        _read_only,
        lambda s: np.empty((s[0] + 1, 3), np.float32),
        lambda s: np.empty((s[0], 6), np.float32)[:, ::2],
        lambda s: [0.0],
    ],
)
def test_an_output_of_one_pose_that_does_not_fit_is_refused(make):
    deformer = full_deformer()
    bones, controls = drivers(deformer)
    with pytest.raises(InputError, match="out: "):
        deformer.deform(bones[0], controls[0], out=make((deformer.mesh.vertex_count, 3)))


@pytest.mark.parametrize("in_place", [False, True])
def test_what_nothing_drives_says_so(in_place):
    mesh = full_deformer().mesh
    out = np.empty((mesh.vertex_count, 3), np.float32) if in_place else None
    with pytest.raises(InputError, match="nothing drives this deformer"):
        Deformer(mesh).deform(out=out)


def test_one_pose_that_needs_conversion_gives_the_same():
    deformer = full_deformer()
    bones, controls = drivers(deformer)
    wanted = deformer.deform(bones[0], controls[0])
    plain, other = np.empty_like(wanted), np.empty_like(wanted)
    deformer.deform(bones[0], controls[0], out=plain)
    deformer.deform(
        bones[0].tolist(),
        np.asfortranarray(np.repeat(controls[0], 2))[::2],
        out=other,
        threads=np.int64(2),
    )
    np.testing.assert_array_equal(plain, wanted)
    np.testing.assert_allclose(other, wanted, rtol=0, atol=1e-6)


@pytest.mark.parametrize("wrong", ["bones", "controls", "threads", "finite"])
def test_one_pose_into_memory_is_checked(wrong):
    deformer = full_deformer()
    bones, controls = (driver[0].copy() for driver in drivers(deformer))
    threads = None
    if wrong == "bones":
        bones = bones[1:]
    elif wrong == "controls":
        controls = controls[1:]
    elif wrong == "finite":
        bones[0, 0, 0] = np.nan
    else:
        threads = True
    named = {
        "bones": "world_from_bone: expected",
        "controls": "controls: expected",
        "threads": "threads: expected",
        "finite": "NaN",
    }[wrong]
    with pytest.raises(InputError, match=named):
        deformer.deform(
            bones,
            controls,
            out=np.empty((deformer.mesh.vertex_count, 3), np.float32),
            threads=threads,
        )


@pytest.mark.parametrize(
    "make",
    [
        lambda s: np.empty(s),
        lambda s: np.empty(s[1:], np.float32),
        lambda s: np.empty(s, np.float32)[:, ::-1],
    ],
)
def test_an_output_that_does_not_fit_is_refused(make):
    deformer = full_deformer()
    bones, controls = drivers(deformer, 4)
    with pytest.raises(InputError, match="out: expected"):
        deformer.deform(bones, controls, out=make((4, deformer.mesh.vertex_count, 3)))


@pytest.mark.parametrize("threads", [0, 65, 1.5, True, "two"])
def test_a_wrong_number_of_threads_is_named(threads):
    deformer = full_deformer()
    with pytest.raises(InputError, match="threads: expected"):
        deformer.deform(*drivers(deformer), threads=threads)


def test_numbers_that_are_not_finite_are_found():
    deformer = full_deformer()
    bones, controls = drivers(deformer)
    bones[3, 1, 2, 0] = np.inf
    with pytest.raises(InputError, match=r"world_from_bone: 1 of .* first at index \(3, 1, 2, 0\)"):
        deformer.deform(bones, controls)


def test_no_poses_give_no_vertices():
    deformer = full_deformer()
    bones, controls = drivers(deformer)
    assert deformer.deform(bones[:0], controls[:0]).shape == (0, deformer.mesh.vertex_count, 3)


def test_several_threads_may_deform_with_the_same_deformer():
    deformer = full_deformer()
    bones, controls = drivers(deformer, 20)
    want = deformer.deform(bones, controls)
    wrong = []

    def work():
        for _ in range(50):
            if not np.array_equal(deformer.deform(bones, controls, threads=2), want):
                wrong.append(1)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_without_a_compiler_numpy_takes_over_and_says_so_once(monkeypatch):
    deformer = full_deformer()
    bones, controls = drivers(deformer)
    monkeypatch.setattr(runtime, "compiled", None)
    monkeypatch.setattr(runtime, "_warned", False)
    out = np.empty((len(bones), deformer.mesh.vertex_count, 3), np.float32)
    with pytest.warns(UserWarning, match="without its compiled runtime"):
        vertices, normals = deformer.deform(bones, controls, threads=2, out=out, normals=True)
    np.testing.assert_array_equal(vertices, deformer.deform_reference(bones, controls))
    assert np.shares_memory(vertices, out)
    np.testing.assert_allclose(np.linalg.norm(normals, axis=-1), 1, atol=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        deformer.deform(bones, controls)


def test_a_saved_file_plays_the_same(tmp_path):
    for name in ("full-dual_quaternion-virtual-gelu", "wide-half"):
        deformer = KINDS[name]()
        deformer.save(tmp_path / name)
        bones, controls = drivers(deformer)
        np.testing.assert_array_equal(
            Deformer.load(tmp_path / name).deform(bones, controls), deformer.deform(bones, controls)
        )


@pytest.mark.parametrize("large", [1e19, -1e300])
@pytest.mark.parametrize("in_place", [False, True])
def test_numbers_beyond_float32_are_refused(large, in_place):
    deformer = full_deformer()
    bones, controls = (driver[0].copy() for driver in drivers(deformer))
    bones[1, 2, 3] = large
    out = np.empty((deformer.mesh.vertex_count, 3), np.float32) if in_place else None
    with pytest.raises(InputError, match=r"world_from_bone: expected numbers of at most 1e\+18"):
        deformer.deform(bones, controls, out=out)
    with pytest.raises(InputError, match=r"world_from_bone: expected numbers of at most 1e\+18"):
        deformer.deform_reference(bones, controls)


@pytest.mark.parametrize("poses", [1, 20])
def test_an_output_over_the_input_is_refused(poses):
    deformer = full_deformer()
    bones, controls = drivers(deformer, poses)
    count = poses * deformer.mesh.vertex_count * 3
    memory = np.zeros(max(count * 4, bones.nbytes), np.uint8)
    inside = memory[: bones.nbytes].view(np.float64).reshape(bones.shape)
    inside[...] = bones
    out = memory[: 4 * count].view(np.float32).reshape(poses, -1, 3)
    with pytest.raises(InputError, match="out: shares memory with world_from_bone"):
        deformer.deform(inside, controls, out=out)
    np.testing.assert_array_equal(inside, bones)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_normals_have_unit_length_at_any_scale(scale):
    deformer = replace(
        full_deformer(), nets=(), bases=(), features=Features(), mean=None, skin=None, skeleton=None
    )
    mesh = replace(deformer.mesh, vertices=deformer.mesh.vertices * np.float32(scale))
    spec = ControlSpec(("none",), [0], [1])
    _, normals = Deformer(mesh, control_spec=spec).deform(controls=[0.0], normals=True)
    np.testing.assert_allclose(np.linalg.norm(normals, axis=-1), 1, atol=1e-5)


def test_a_vertex_without_area_has_a_zero_normal():
    mesh = full_deformer().mesh
    flat = replace(mesh, vertices=np.zeros_like(mesh.vertices))
    spec = ControlSpec(("none",), [0], [1])
    _, normals = Deformer(flat, control_spec=spec).deform(controls=[0.0], normals=True)
    np.testing.assert_array_equal(normals, 0)


def test_a_basis_that_names_a_vertex_twice_is_refused():
    with pytest.raises(InputError, match="basis vertices: 4 occurs more than once"):
        Basis([4, 1, 4], np.zeros((9, 1)), [0])


def test_a_name_with_a_zero_character_is_refused():
    with pytest.raises(InputError, match="control names: a name contains a zero character"):
        ControlSpec(("a\0b",), [0], [1])


def test_controls_for_a_deformer_without_any_are_refused():
    with pytest.raises(InputError, match="controls: this deformer has none; leave them out"):
        Deformer(full_deformer().mesh).deform(controls=[0.0])
