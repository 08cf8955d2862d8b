"""CEL selectors of classes, claims and templates: what was meant, whether it compiles, what it will do.

Not here: the mistakes themselves (`mistakes`), the API's limits on lists (`schema`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from cel.checker import environments
from cel.checker.checker import Checked
from cel.checker.environments import Environment
from cel.cost.estimate import LIMIT, estimate
from cel.errors import CompileError
from cel.program import check_expression, compile_selector
from cel.selector_lint import find_traps, hint_for
from scheduler.lint.context import Context, expressions
from scheduler.lint.findings import NEVER_VALID, FieldPath, Severity
from scheduler.lint.mistakes import Mistake, find_mistakes, rewrite
from scheduler.lint.published import Published
from scheduler.lint.view import View, at, selector_holders, text
from scheduler.model.api_rules import EXPRESSION_LENGTH_MAX
from scheduler.model.nearest import listed, nearest
from scheduler.model.selector_reading import Selector, parsed

_QUOTES: Final = str.maketrans("“”„‘’", '"""\'\'')


def check_selectors(view: View, context: Context) -> None:
    """Check, and where it is certain rewrite, every selector of one view."""
    for path, holder in selector_holders(view):
        if view.kind == "DeviceClass":
            drivers, is_known = frozenset[str](), True
        else:
            name = text(holder.get("deviceClassName"))
            drivers, is_known = context.drivers_of_class(name), context.is_class_known(name)
        _selectors(view, context, path, holder, class_drivers=drivers, is_class_known=is_known)


def _selectors(
    view: View,
    context: Context,
    path: FieldPath,
    holder: dict[str, Any],
    *,
    class_drivers: frozenset[str],
    is_class_known: bool,
) -> None:
    for index, expression in expressions(holder.get("selectors")):
        where: FieldPath = (*path, "selectors", index, "cel", "expression")
        holder["selectors"][index]["cel"]["expression"] = _with_quotes(view, where, expression)
    all_pins = class_drivers | context.pins_of(holder.get("selectors"))
    # Selectors are asked in order and the first "no" ends it: later ones see only devices the earlier ones let through.
    let_through = set(class_drivers)
    for index, expression in expressions(holder.get("selectors")):
        where = (*path, "selectors", index, "cel", "expression")
        checker = _Expression(view, context, where, expression, all_pins)
        meant = checker.mistakes()
        if meant is not None:
            if meant != expression:  # the quotes, too
                holder["selectors"][index]["cel"]["expression"] = meant
            checker.compile(meant, let_through if is_class_known else None)
        let_through |= context.pins_of([{"cel": {"expression": meant or expression}}])


def _with_quotes(view: View, path: FieldPath, expression: str) -> str:
    """Typographic quotes in the place of CEL's: one character for one, so all places stay."""
    plain = expression.translate(_QUOTES)
    if plain == expression or parsed(expression) is not None or parsed(plain) is None:
        return expression
    at = next(index for index, char in enumerate(expression) if ord(char) in _QUOTES)
    view.never_valid(
        "full-width-punctuation",
        path,
        f"{expression[at]!r} is no quote of CEL's, as pages and chats put it in",
        plain,
        converted=f"the expression is now: {' '.join(plain.split())}",
        offset=at,
    )
    return plain


@dataclass
class _Expression:
    view: View
    context: Context
    path: FieldPath
    expression: str
    drivers: Collection[str]

    def report(
        self,
        code: str,
        severity: Severity,
        offset: int,
        message: str,
        fix: str,
        *,
        served: str = "",
        converted: str = "",
    ) -> None:
        self.view.report(
            code, severity, self.path, message, fix, served=served, converted=converted, offset=max(offset, 0)
        )

    def mistakes(self) -> str | None:
        """Report mistakes; the expression as it was meant, None when that is not certain."""
        found = find_mistakes(self.expression, self.context, self.drivers, self.is_valid)
        if any(not mistake.compiles for mistake in found) and self.is_valid(self.expression):
            # The checker knows better: what an API server takes is no error, whatever it does.
            found = [
                mistake if mistake.compiles else replace(mistake, compiles=True, is_mild=True) for mistake in found
            ]
        found = [self.with_driver(mistake) for mistake in found]
        meant = rewrite(self.expression, found)
        one_line = " ".join(meant.split())
        for mistake in found:
            self.report(
                mistake.code,
                Severity.WARNING if mistake.is_mild else Severity.ERROR,
                mistake.offset,
                mistake.message,
                mistake.fix,
                served="" if mistake.compiles else NEVER_VALID,
                converted=f"the expression is now: {one_line}" if mistake.edits else "",
            )
        return meant if all(mistake.edits or mistake.compiles for mistake in found) else None

    def is_valid(self, expression: str) -> bool:
        """Whether an API server of this release, or of the newest one with all features, takes an expression."""
        newest = environments.get(f"1.{environments.NEWEST_MINOR}", kind="new", list_type_attributes=True)
        for environment in (environments.get(self.context.settings.kubernetes, kind="new"), newest):
            with suppress(CompileError):
                return estimate(_check(expression, environment)).max <= LIMIT
        return False

    def with_driver(self, mistake: Mistake) -> Mistake:
        """Name the drivers there are, for an extended resource's name used as one."""
        published = self.context.published
        if mistake.code != "driver-with-slash" or published is None or not published.drivers:
            return mistake
        return replace(mistake, fix=f"the drivers that publish slices are: {', '.join(sorted(published.drivers))}")

    def compile(self, expression: str, let_through: Collection[str] | None) -> None:
        """Whether an API server would take it; `let_through` None when nothing is known of its devices."""
        if len(expression.encode("utf-8", "replace")) > EXPRESSION_LENGTH_MAX:
            message = f"longer than {EXPRESSION_LENGTH_MAX} bytes"
            self.report("expression-too-long", Severity.ERROR, 0, message, "shorten it")
            return
        checked = self.checked(expression)
        if checked is None:
            return
        cost = estimate(checked).max
        if cost > LIMIT:
            self.report(
                "expression-too-complex",
                Severity.ERROR,
                0,
                f"too complex, exceeds cost limit: the estimate is above {LIMIT}",
                "iterate over less, or compare fewer values",
            )
        for trap in find_traps(checked):
            # Without the class nothing is known of the devices that come here; with a driver, its attributes are there.
            if trap.code == "unguarded-read" and (let_through is None or let_through):
                continue
            offset = trap.offset if expression == self.expression else 0
            self.report(trap.code, Severity.WARNING, offset, trap.message, trap.advice)

    def checked(self, expression: str) -> Checked | None:
        version = self.context.settings.kubernetes
        has_lists = bool(self.context.gate("DRAListTypeAttributes"))
        try:
            return _check(expression, environments.get(version, kind="new", list_type_attributes=has_lists))
        except CompileError as error:
            refused = error
        newest = f"1.{environments.NEWEST_MINOR}"
        for needs, environment in (
            (
                "the feature gate DRAListTypeAttributes",
                environments.get(version, kind="new", list_type_attributes=True),
            ),
            (f"Kubernetes {newest}", environments.get(newest, kind="new")),
            (
                f"Kubernetes {newest} with the feature gate DRAListTypeAttributes",
                environments.get(newest, kind="new", list_type_attributes=True),
            ),
        ):
            try:
                checked = _check(expression, environment)
            except CompileError:
                continue
            self.report(
                "needs-newer-cluster",
                Severity.WARNING,
                refused.issues[0].offset if refused.issues and expression == self.expression else 0,
                f"Kubernetes {version} refuses this by default; it needs {needs}",
                "use it only where that is so",
            )
            return checked
        issue = refused.issues[0] if refused.issues else None
        message = issue.message if issue is not None else str(refused)
        self.report(
            "expression-refused",
            Severity.ERROR,
            issue.offset if issue is not None and expression == self.expression else 0,
            f"does not compile: {message}",
            hint_for(str(refused)) or "dra-scheduler cel check explains it",
        )
        return None


def check_names(view: View, published: Published) -> None:
    """Drivers and attributes in selectors that no published device has."""
    for path, holder in selector_holders(view):
        for index, expression in expressions(holder.get("selectors")):
            where: FieldPath = (*path, "selectors", index, "cel", "expression")
            is_as_written = at(view.document.obj, view.origin(where)) == expression
            selector = Selector(expression)
            for offset, _, name in selector.drivers:
                if name not in published.drivers and "/" not in name:
                    fix = nearest(name, published.drivers) or listed(published.drivers)
                    message = f"no driver {name} publishes slices here"
                    view.warning("unknown-driver", where, message, fix, offset=offset if is_as_written else 0)
            for offset, message, fix in _unknown_attributes(selector, published):
                view.warning("unknown-attribute", where, message, fix, offset=offset if is_as_written else 0)


def _unknown_attributes(selector: Selector, published: Published) -> Iterator[tuple[int, str, str]]:
    """Place, message and advice."""
    read = {one.key: one.offset for one in reversed(selector.references) if not one.is_question}
    for (which, domain, name), offset in sorted(read.items(), key=lambda one: one[1]):
        names = published.names_in(which, domain)
        if name in names or "/" in domain:
            continue
        if elsewhere := sorted(published.domains_of(which, name)):
            fix = f"{name} is published by {', '.join(elsewhere)}"
        else:
            fix = nearest(name, names) or (f"{domain} has: {', '.join(sorted(names))}" if names else "")
        noun = "attribute" if which == "attributes" else "capacity"
        yield offset, f"no device here has the {noun} {domain}/{name}", fix


def _check(expression: str, environment: Environment) -> Checked:
    compile_selector(expression, environment)
    return check_expression(expression, environment)
