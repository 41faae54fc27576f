"""The metrics that benchmarks alone measure, beside those of the product's catalogue.

Importing `understudy_benchmarks` adds them: tables and reports then know their labels and units.
"""

from __future__ import annotations

from understudy.evaluation.metric_catalogue import METRICS, Metric

METRICS.update(
    {
        "e_sphere": Metric(
            "E sphere",
            "",
            "E with the rest pose in a unit sphere in place of half the bounding box diagonal",
            True,
        ),
        "delta_e": Metric(
            "ΔE", "", "E above that of the dense skin: the square root of E² less its E²", True
        ),
        "memory_pct": Metric(
            "memory", "%", "memory of the virtual bones' transforms beside that of a plain skin"
        ),
        "skin_mean": Metric(
            "skin", "{unit}", "the mean error of its skin alone, without correctives"
        ),
        "skin_ratio": Metric(
            "/ skin",
            "",
            "the mean error divided by that of its skin alone, without correctives",
            True,
        ),
        "delta_w": Metric(
            "ΔW", "", "root-mean-square error of the compressed skin weights, in thousandths", True
        ),
        "paper_e": Metric("paper E", "", "E as published in the paper of the method"),
        "paper_erms": Metric("paper ERMS", "", "ERMS as published in the paper of the method"),
        "rival_erms": Metric(
            "rivals' ERMS",
            "",
            "lowest ERMS that the paper reports for other methods of the same kind",
        ),
        "erms_low": Metric("lowest ERMS", "", "lowest ERMS of several training seeds"),
        "erms_high": Metric("highest ERMS", "", "highest ERMS of several training seeds"),
        "paper_delta_w": Metric("paper ΔW", "", "ΔW as published in the paper of the method"),
        "mse_differential": Metric(
            "MSE delta",
            "",
            "mean squared error of the predicted differential coordinates on validation poses",
            True,
        ),
        "mse_anchors": Metric(
            "MSE anchors",
            "",
            "mean squared error of the predicted anchor positions on validation poses",
            True,
        ),
        "anchors": Metric("anchors", "count", "vertices whose displacement has its own network"),
        "components": Metric("components", "count", "principal components of all regions"),
        "true_bones": Metric(
            "true bones", "count", "bones that move apart in the character's own rig"
        ),
        "joints_outside": Metric(
            "joints outside", "count", "joints outside the mesh, by more than 2 % of its size"
        ),
        "joint_outermost": Metric(
            "outermost joint", "%", "largest distance of a joint outside the mesh, of its size"
        ),
        "joints_found": Metric(
            "joints found", "share", "true joints with a joint within 5 % of the size"
        ),
        "joints_true": Metric(
            "joints true", "share", "joints with a true joint within 5 % of the size"
        ),
        "joints_in_wrong_limb": Metric(
            "joints in wrong limb",
            "count",
            "joints farther than 10 % of the size from the vertices of their bone, along edges",
        ),
        "smallest_patch": Metric(
            "smallest patch", "count", "fewest vertices that a bone moves most"
        ),
        "paper_bones": Metric("paper bones", "count", "bones used in the paper of the method"),
        "rounds_to_fesam": Metric(
            "rounds to FESAM",
            "count",
            "iterations until the error is below the final one of FESAM-WT",
        ),
        "time_ratio": Metric(
            "time /peer",
            "",
            "time to fit relative to the peer in the same run; below 1 is faster",
            True,
        ),
        "error_ratio": Metric(
            "E /peer", "", "E relative to the peer in the same run; below 1 is better", True
        ),
        "cg_ms": Metric(
            "CG", "ms", "time to solve for all transforms by conjugate gradients, random weights"
        ),
        "direct_ms": Metric("direct", "ms", "the same with a direct solver"),
        "peak_mb": Metric("peak memory", "MB", "largest memory use of the fit, or of all steps"),
        "ms": Metric("one pose", "ms", "time of one pose, the fastest of twenty calls"),
        "speedup_2": Metric("2 workers", "x", "speed of two worker processes relative to one"),
        "ms_p99_1": Metric(
            "p99 1", "ms", "99 % of single poses are faster than this on one thread"
        ),
        "ms_p99_2": Metric(
            "p99 2", "ms", "99 % of single poses are faster than this on two threads"
        ),
        "crowd_ms_1": Metric("crowd 1", "ms", "time per pose in a call with 100 poses, one thread"),
        "crowd_ms_2": Metric(
            "crowd 2", "ms", "time per pose in a call with 100 poses, two threads"
        ),
        "floor_ms_1": Metric(
            "floor 1", "ms", "memory floor: time to read the bytes of one call once, on one thread"
        ),
        "floor_ms_2": Metric("floor 2", "ms", "memory floor on two threads"),
        "floor_p99_1": Metric(
            "f. p99 1", "ms", "99 % of these reads are faster than this on one thread"
        ),
        "floor_p99_2": Metric(
            "f. p99 2", "ms", "99 % of these reads are faster than this on two threads"
        ),
        "arithmetic_ms_1": Metric(
            "arith. 1",
            "ms",
            "time of the multiply-adds of one pose on data in registers, one thread",
        ),
        "arithmetic_ms_2": Metric("arith. 2", "ms", "the same on two threads"),
        "arithmetic_p99_1": Metric(
            "a. p99 1", "ms", "99 % of these runs are faster than this on one thread"
        ),
        "arithmetic_p99_2": Metric(
            "a. p99 2", "ms", "99 % of these runs are faster than this on two threads"
        ),
        "busy_ms_1": Metric(
            "busy 1", "ms", "time of one pose on one thread while another process occupies a core"
        ),
        "busy_ms_2": Metric(
            "busy 2", "ms", "time of one pose on two threads while another process occupies a core"
        ),
        "cost": Metric("cost", "", "bytes of the choice, or its error where the budget has none"),
        "best_cost": Metric("best cost", "", "the same of the best candidate of a full sweep"),
        "cost_ratio": Metric("cost /best", "", "cost relative to the best candidate of the sweep"),
        "time_share": Metric("time share", "", "time of the fits relative to those of the sweep"),
        "kept": Metric("kept", "", "1 if unseen poses keep the budget, else 0"),
        "quiet_s": Metric("alone", "s", "time of a command on two cores, alone"),
        "busy_s": Metric("busy", "s", "time of a command while another process occupies a core"),
        "quiet_cpu_s": Metric("CPU alone", "s", "processor time of a command on two cores, alone"),
        "busy_cpu_s": Metric(
            "CPU busy", "s", "processor time of a command while another process occupies a core"
        ),
        "poses": Metric("poses", "", "poses that are sampled, fitted and measured"),
        "vertices": Metric("vertices", "", "vertices of the mesh"),
        "sample_s": Metric("sample", "s", "time of sampling"),
        "sample_cpu_s": Metric("CPU sample", "s", "processor time of sampling"),
        "sample_peak_mb": Metric("memory sample", "MB", "largest memory of sampling"),
        "fit_cpu_s": Metric("CPU fit", "s", "processor time of the fit"),
        "fit_peak_mb": Metric("memory fit", "MB", "largest memory of the fit"),
        "evaluate_s": Metric("evaluate", "s", "time of measuring"),
        "evaluate_cpu_s": Metric("CPU evaluate", "s", "processor time of measuring"),
        "evaluate_peak_mb": Metric("memory evaluate", "MB", "largest memory of measuring"),
        "disk_mb": Metric("disk", "MB", "size of the pose store"),
    }
)
