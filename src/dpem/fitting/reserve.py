"""Plans whose stages depend on the number of rows: the first is fixed, the rest of the budget is reserved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Unpack

from dpem.gate.plan import Plan, Stage, Terms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpem.privacy.neighbours import Adjacency

__all__ = ["RESERVED", "ShapedRequest", "plan_of_first", "with_shape"]

RESERVED = "rest"


class ShapedRequest(Protocol):
    """The public arguments of a fit whose stages depend on the number of rows."""

    def shape(self, n_rows: float, plan: Plan) -> Any:
        """Return the shape of the model that a public or released number of rows allows."""
        ...

    def shapes(self) -> Sequence[Any]:
        """Return the shapes that show whether every shape which `shape` may return can be planned."""
        ...

    def stages(self, shape: Any, adjacency: Adjacency) -> list[Stage]:
        """Return the stages after the first."""
        ...


def plan_of_first(name: str, share: float, sensitivity: float, **terms: Unpack[Terms]) -> Plan:
    """Return a plan of the first stage and one that reserves the rest of the budget."""
    stages = [Stage(name, share, sensitivity), Stage(RESERVED, 1 - share, sensitivity)]
    return Plan.build(stages, **terms)


def with_shape(plan: Plan, request: ShapedRequest, n_rows: int | None) -> Plan:
    """Refine the reserved stage, if the number of rows is public.

    Otherwise raise, before the charge, if a shape that its release may choose cannot be planned.
    """
    if n_rows is not None:
        stages = request.stages(request.shape(n_rows, plan), plan.adjacency)
        return plan.refined(RESERVED, stages, by_release=False)
    for shape in request.shapes():
        plan.refined(RESERVED, request.stages(shape, plan.adjacency), by_release=True)
    return plan
