"""Item response theory: what students know and how hard the questions are, d = 501."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, TypedDict

import jax
import jax.numpy as jnp
import numpy as np

from amalt.gym import data
from amalt.gym.gradients import with_gradient
from amalt.targets import Target

NUM_QUESTIONS = 100
MEAN_OF_MEAN = 0.75

# One logarithm for five cells: with logits up to 16 their product stays below e^81 in float32.
CELLS_PER_LOG = 5
MAX_LOGIT = 16.0

# A block of 4 x 400 cells and 128 chains takes 0.8 MB.
QUESTIONS_PER_BLOCK = 4

Carry = tuple[jax.Array, jax.Array]


class Position(TypedDict):
    """A position; all parameters are real numbers."""

    centered_student_ability: jax.Array
    mean_student_ability: jax.Array
    question_difficulty: jax.Array


class Sums(NamedTuple):
    r"""Sums over students i and questions j, with :math:`v_{ij} = t_i - b_j`.

    .. math::
        k_{ij} = \frac{1}{1 + A_{ij} e^{v_{ij}}}, \qquad A_{ij} = 1 \text{ for an answer, else } 0
    """

    softplus: jax.Array
    r""":math:`-\sum_{ij} \log k_{ij}`."""

    of_student: jax.Array
    r""":math:`\sum_j k_{ij}` for each student."""

    of_question: jax.Array
    r""":math:`\sum_i k_{ij}` for each question."""


def build() -> Target:
    r"""Build the model of 30012 answers of 400 students to 100 questions, d = 501.

    .. math::
        m \sim N(0.75, 1), \quad a_i \sim N(0, 1), \quad b_j \sim N(0, 1), \quad
        y_{ij} \sim \mathrm{Bernoulli}(1 / (1 + e^{-(m + a_i - b_j)}))

    for the three quarters of the pairs that were asked. In the order of the flat vector:
    ``centered_student_ability`` (:math:`a`), ``mean_student_ability`` (:math:`m`),
    ``question_difficulty`` (:math:`b`).
    """
    answered, correct = answers()
    num_students, num_questions = answered.shape
    example = Position(
        centered_student_ability=jnp.zeros(num_students),
        mean_student_ability=jnp.zeros(()),
        question_difficulty=jnp.zeros(num_questions),
    )
    return Target(
        with_gradient(value_and_gradient(answered, correct)),
        example,
        name="item-response",
        dims={"centered_student_ability": ("student",), "question_difficulty": ("question",)},
        truth=data.read_truth("item_response_truth", example),
    )


def answers() -> tuple[np.ndarray, np.ndarray]:
    """Return who answered what, and whose answer was right, as booleans [student, question]."""
    arrays = data.read("item_response")
    answered, correct = (
        np.unpackbits(arrays[name], axis=1, count=NUM_QUESTIONS).astype(bool)
        for name in ("answered", "correct")
    )
    return answered, correct


def value_and_gradient(
    answered: np.ndarray, correct: np.ndarray
) -> Callable[[Position], tuple[jax.Array, Position]]:
    r"""Return the log density, all constants kept, together with its gradient.

    With :math:`t_i = m + a_i`, and for I students and J questions the numbers :math:`r_i, q_j` of
    right answers and :math:`\bar r_i = J - r_i, \bar q_j = I - q_j` of all other cells:

    .. math::
        L &= \textstyle\sum_i r_i t_i - \sum_j q_j b_j + \sum_{ij} \log k_{ij}
             - \tfrac12 (|a|^2 + |b|^2 + (m - 0.75)^2) - \tfrac{501}{2} \log 2\pi \\
        s_i &= \textstyle\sum_j k_{ij} - \bar r_i, \qquad
        \partial L / \partial a_i = s_i - a_i, \qquad
        \partial L / \partial m = \textstyle\sum_i s_i - (m - 0.75) \\
        \partial L / \partial b_j &= \bar q_j - \textstyle\sum_i k_{ij} - b_j

    Parameters
    ----------
    answered
        Which cells [student, question] count, as booleans; the number of students is a multiple
        of 5, that of questions a multiple of 4.
    correct
        Which of them hold a right answer.
    """
    constant = 0.5 * (sum(answered.shape) + 1) * math.log(2.0 * math.pi)
    correct = correct & answered
    right_of_student, right_of_question = correct.sum(1), correct.sum(0)

    def evaluate(position: Position) -> tuple[jax.Array, Position]:
        a, m, b = (jnp.asarray(position[name]) for name in Position.__annotations__)
        r, q = jnp.asarray(right_of_student, a.dtype), jnp.asarray(right_of_question, a.dtype)
        t, m_centered = m + a, m - MEAN_OF_MEAN
        sums = sums_over_answers(jnp.asarray(answered.T, a.dtype), t, b)
        log_prior = -0.5 * (jnp.vdot(a, a) + jnp.vdot(b, b) + m_centered**2) - constant
        value = jnp.vdot(r, t) - jnp.vdot(q, b) - sums.softplus + log_prior
        surplus = sums.of_student - (b.size - r)
        gradient = Position(
            centered_student_ability=surplus - a,
            mean_student_ability=jnp.sum(surplus) - m_centered,
            question_difficulty=(a.size - q) - sums.of_question - b,
        )
        return value, gradient

    return evaluate


def sums_over_answers(answered: jax.Array, t: jax.Array, b: jax.Array) -> Sums:
    """Return the sums for any abilities and difficulties, fast where no logit exceeds 16.

    Under vmap, the chains that need it are computed again by the slow way, which is taken only if
    there are any: what a chain gets does not depend on the others.

    Parameters
    ----------
    answered
        1 for each answer, else 0, [question, student].
    t
        Abilities of the students.
    b
        Difficulties of the questions.
    """
    is_far = jnp.max(t) - jnp.min(b) > MAX_LOGIT

    # t and b change in the loop, although it runs once at most: XLA moves what does not change out
    # of a loop, and the slow way would always be taken.
    def again(
        carry: tuple[jax.Array, jax.Array, jax.Array, Sums],
    ) -> tuple[jax.Array, jax.Array, jax.Array, Sums]:
        _, t, b, _ = carry
        sums = slow_sums(answered, t, b)
        return jnp.zeros_like(is_far), jnp.zeros_like(t), jnp.zeros_like(b), sums

    carry = (is_far, t, b, fast_sums(answered, t, b))
    return jax.lax.while_loop(lambda carry: carry[0], again, carry)[3]


def fast_sums(answered: jax.Array, t: jax.Array, b: jax.Array) -> Sums:
    r"""Return the sums from one exponential for each student and question, not for each cell.

    .. math::
        e^{v_{ij}} = e^{t_i - c}\, e^{c - b_j}, \qquad c = \min_j b_j
    """
    c = jnp.min(b)
    of_student = jnp.exp(t - c)

    def of_block(answered: jax.Array, of_question: jax.Array) -> tuple[jax.Array, jax.Array]:
        k = 1.0 / (1.0 + answered * (of_question[:, None] * of_student[None]))
        products = jnp.prod(k.reshape(len(k), CELLS_PER_LOG, -1), axis=1)
        return -jnp.sum(jnp.log(products)), k

    return sum_over_blocks(of_block, answered, jnp.exp(c - b))


def slow_sums(answered: jax.Array, t: jax.Array, b: jax.Array) -> Sums:
    r"""Return the sums from :math:`e^{-|v|}` of each cell, which cannot overflow."""

    def of_block(answered: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
        v = t[None] - b[:, None]
        is_positive = v >= 0
        e = jnp.exp(jnp.where(is_positive, -v, v))
        softplus = jnp.where(is_positive, v, 0.0) + jnp.log1p(e)
        k = jnp.where(is_positive, e, 1.0) / (1.0 + e)
        return jnp.sum(answered * softplus), jnp.where(answered > 0, k, 1.0)

    return sum_over_blocks(of_block, answered, b)


def sum_over_blocks(
    of_block: Callable[[jax.Array, jax.Array], tuple[jax.Array, jax.Array]],
    answered: jax.Array,
    of_question: jax.Array,
) -> Sums:
    """Add up blocks of a few questions, so that a block of all chains stays in the cache of a CPU.

    Parameters
    ----------
    of_block
        Maps rows of ``answered`` and entries of ``of_question`` to the sum of softplus over the
        block, and to k of its cells.
    answered
        1 for each answer, else 0, [question, student].
    of_question
        What the function needs to know of each question.
    """

    def add(carry: Carry, block: tuple[jax.Array, jax.Array]) -> tuple[Carry, jax.Array]:
        softplus, k = of_block(*block)
        return (carry[0] + softplus, carry[1] + jnp.sum(k, axis=0)), jnp.sum(k, axis=1)

    num_questions, num_students = answered.shape
    blocks = (
        answered.reshape(-1, QUESTIONS_PER_BLOCK, num_students),
        of_question.reshape(-1, QUESTIONS_PER_BLOCK),
    )
    zeros = (jnp.zeros_like(of_question[0]), jnp.zeros_like(answered[0]))
    (softplus, of_students), of_questions = jax.lax.scan(add, zeros, blocks)
    return Sums(softplus, of_students, of_questions.reshape(num_questions))
