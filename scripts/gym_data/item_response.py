"""Item response: who answered which question, and who was right."""

from __future__ import annotations

import numpy as np

from gym_data.sources import Arrays, SourceError, array_constants

NUM_STUDENTS, NUM_QUESTIONS, NUM_ANSWERS = 400, 100, 30012


def item_response_arrays(content: bytes) -> Arrays:
    """Pack the list of answers into two tables of bits, one row for each student."""
    constants = array_constants(content.decode("utf-8"))
    student, question, is_correct = (
        constants[name].astype(int) for name in ("STUDENT_IDS", "QUESTION_IDS", "CORRECT")
    )
    answered = np.zeros((NUM_STUDENTS, NUM_QUESTIONS), bool)
    answered[student, question] = True
    if not len(student) == answered.sum() == NUM_ANSWERS:
        raise SourceError(
            f"expected {NUM_ANSWERS} answers, each to another question or of another student, "
            f"found {answered.sum()} in {len(student)}."
        )
    if set(is_correct.tolist()) != {0, 1}:
        raise SourceError(f"expected 0 and 1, found {sorted(set(is_correct.tolist()))}.")
    correct = np.zeros_like(answered)
    correct[student, question] = is_correct == 1
    return {"answered": np.packbits(answered, axis=1), "correct": np.packbits(correct, axis=1)}
