"""`tracekit doctor`: gather the facts, then judge them."""

from tracekit.doctor.diagnosis import Diagnosis


def doctor() -> Diagnosis:
    """Check whether tracekit works on this machine: versions, devices, a capture of a small program, viewers, disk.

    Takes some seconds: jax, TensorBoard and the capture are tried in processes of their own, each with a time limit.
    Nothing is left behind, and nothing of what is wrong raises: it is a check that says how to fix it.
    """
    # Here, because `import tracekit` imports this module.
    from tracekit.doctor.checks import check
    from tracekit.doctor.facts import gather
    from tracekit.doctor.probes import probe

    return Diagnosis(tuple(check(probe(gather()))))
