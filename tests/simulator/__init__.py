"""Random training jobs whose truth is known: a discrete-event simulator, what it says of a job, and writers of traces.

Nothing here imports tracekit but `compare`, which holds tracekit's answers against the truth.
"""
