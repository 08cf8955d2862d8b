"""Selectors: the subterm, the nearest value, attribute, domain or type; and what would match, and cannot be had."""

from __future__ import annotations

from tests.explain.planted.shapes import (
    FLEET,
    NIC,
    ONE,
    PAIR,
    PLAIN,
    REMOVED,
    Dress,
    Planted,
    edit,
    ended,
    gone,
    node,
    planted,
)

UNMET = r"selector-|class-unmatched|class-selector"
NO_CLASS = (r"^(to make it fit: )?(drop|relax|edit|write).*DeviceClass",)


def selecting(d: Dress, expression: str, right: str, **row: object) -> Planted:
    """Devices as the dress has them, and a request that selects by one expression."""
    return Planted(
        [*d.fleet(), d.ask(d.want(expression)), d.waiting()],
        d.asked,
        UNMET,
        rf"request {d.request}",
        [d.asks("requests.0.exactly.selectors.0.cel.expression", right)],
        **row,
    )


@planted("selector: subterm", PLAIN, FLEET)
def one_of_two_terms_fails(d: Dress) -> Planted:
    memory = f"device.capacity['{d.driver}'].memory.compareTo(quantity('100Gi')) >= 0"
    return selecting(
        d,
        f"{d.is_(d.attribute[1])} && {memory}",
        d.is_(d.attribute[1]),
        says=[r"100Gi", r"80Gi"],
        never=[rf"no device has .*{d.attribute[0]}"],
    )


@planted("selector: subterm", PLAIN, PAIR)
def the_second_term_names_a_value(d: Dress) -> Planted:
    key, have, other = d.attribute
    return selecting(
        d,
        f"device.driver == '{d.driver}' && {d.is_(other)}",
        d.is_(have),
        says=[key, have, other],
        change=[have],
    )


@planted("selector: value", PLAIN, FLEET)
def a_value_with_a_typo(d: Dress) -> Planted:
    key, have, _ = d.attribute
    typo = have[:-1] + "O"
    return selecting(d, d.is_(typo), d.is_(have), says=[key, typo, have], change=[rf"\b{have}\b"])


@planted("selector: value", ONE, FLEET)
def a_value_in_another_case(d: Dress) -> Planted:
    key, have, _ = d.attribute
    return selecting(d, d.is_(have.swapcase()), d.is_(have), says=[key, have.swapcase(), have], change=[have])


@planted("selector: attribute", PLAIN, FLEET)
def an_attribute_with_a_typo(d: Dress) -> Planted:
    key, have, _ = d.attribute
    typo = key[:-2] + key[-1] + key[-2]
    return selecting(
        d,
        d.is_(have, typo),
        d.is_(have),
        says=[rf"{d.driver}/{typo}", rf"{d.driver}/{key}"],
        change=[key],
    )


@planted("selector: domain", PLAIN, PAIR)
def an_attribute_of_another_domain(d: Dress) -> Planted:
    key, have, _ = d.attribute
    return selecting(
        d,
        d.is_(have, domain="hardware.example.net"),
        d.is_(have),
        says=[rf"hardware\.example\.net/{key}", rf"{d.driver}/{key}"],
        change=[d.driver],
    )


@planted("selector: type", PLAIN, FLEET)
def a_version_compared_with_a_string(d: Dress) -> Planted:
    devices = [d.one(name, {"firmware": {"version": "2.4.1"}}) for name in d.names()]
    return Planted(
        [*d.fleet(devices), d.ask(d.want(d.is_("2.4.1", "firmware"))), d.waiting()],
        d.asked,
        r"selector-",
        rf"request {d.request}",
        [
            d.asks(
                "requests.0.exactly.selectors.0.cel.expression",
                f"device.attributes['{d.driver}'].firmware == semver('2.4.1')",
            )
        ],
        says=[r"firmware", r"version", r"string"],
        change=[r"semver\('2\.4\.1'\)"],
    )


@planted("selector: type", ONE, PAIR)
def a_number_compared_with_a_string(d: Dress) -> Planted:
    devices = [d.one(name, {"lanes": {"int": 16}}) for name in d.names()]
    return Planted(
        [*d.fleet(devices), d.ask(d.want(d.is_("16", "lanes"))), d.waiting()],
        d.asked,
        r"selector-",
        rf"request {d.request}",
        [d.asks("requests.0.exactly.selectors.0.cel.expression", f"device.attributes['{d.driver}'].lanes == 16")],
        says=[r"lanes", r"\bint\b|integer|number", r"string"],
    )


@planted("selector: of the class", PLAIN, FLEET)
def the_class_names_another_driver(d: Dress) -> Planted:
    typo = d.driver.replace(".", "s.", 1)
    fleet = [obj for obj in d.fleet() if obj["metadata"]["name"] != d.cls]
    return Planted(
        [*fleet, d.klass(f"device.driver == '{typo}'"), d.ask(), d.waiting()],
        d.asked,
        UNMET,
        rf"DeviceClass {d.cls}",
        [edit("DeviceClass", d.cls, "spec.selectors.0.cel.expression", f"device.driver == '{d.driver}'")],
        says=[typo, rf"\b{d.driver}"],
    )


@planted("selector: of the class", ONE, PAIR)
def the_class_selects_a_model_that_nobody_has(d: Dress) -> Planted:
    key, have, other = d.attribute
    fleet = [obj for obj in d.fleet() if obj["metadata"]["name"] != d.cls]
    return Planted(
        [*fleet, d.klass(f"device.driver == '{d.driver}' && {d.is_(other)}"), d.ask(), d.waiting()],
        d.asked,
        UNMET,
        rf"DeviceClass {d.cls}",
        [edit("DeviceClass", d.cls, "spec.selectors.0.cel.expression", f"device.driver == '{d.driver}'")],
        says=[key, have, other],
    )


@planted("selector: devices that other classes own are not counted", PLAIN, FLEET)
def another_driver_s_devices_are_not_counted(d: Dress) -> Planted:
    noisy = Dress(**{**{key: getattr(d, key) for key in d.__dataclass_fields__}, "is_noisy": True})
    key, have, _ = d.attribute
    expression = f"device.attributes['{d.driver}'].index == 1 && {d.is_(have)}"
    return Planted(
        [*noisy.fleet(), d.ask(d.want(expression)), d.waiting()],
        d.asked,
        r"selector-",
        rf"request {d.request}",
        [d.asks("requests.0.exactly.selectors.0.cel.expression", d.is_(have))],
        says=[r"index"],
        never=[rf"no attributes? {d.driver}/{key}\b", NIC, rf"{len(d.nodes) * (d.count + 2)}\b.*device"],
    )


# --- what would match, and cannot be had --------------------------------------------------------------------------

RELAX = (r"drop or relax", r"relax the selector", r"write '")


def only(d: Dress, **more: object) -> list[dict[str, object]]:
    """Devices of which the last one alone has the other value."""
    key, _, other = d.attribute
    devices = d.all(max(d.count, 2))
    devices[-1] = {**devices[-1], **more, "attributes": {key: {"string": other}}}
    return devices


def special(d: Dress) -> str:
    return str(only(d)[-1]["name"])


@planted("selector: would match, and is in use", PLAIN, FLEET)
def the_only_match_is_in_use(d: Dress) -> Planted:
    busy = [obj for name in d.nodes for obj in d.held(f"user-{name}", special(d), node=name)]
    return Planted(
        [*d.fleet(only(d)), *busy, d.ask(d.want(d.is_(d.attribute[2]))), d.waiting()],
        d.asked,
        r"devices?-(held|in-use)|holder",
        rf"{special(d)}",
        [ended(f"user-{d.at}")],
        says=[r"in use|has it|held", r"user-"],
        change=[r"user-"],
        never=RELAX,
    )


@planted("selector: would match, and is tainted", PLAIN, FLEET)
def the_only_match_is_tainted(d: Dress) -> Planted:
    taint = {"key": "health.example.net/ecc", "value": "bad", "effect": "NoSchedule"}
    return Planted(
        [*d.fleet(only(d, taints=[taint])), d.ask(d.want(d.is_(d.attribute[2]))), d.waiting()],
        d.asked,
        r"device-tainted",
        special(d),
        [
            edit("ResourceSlice", f"slice-{d.at}", f"spec.devices.{max(d.count, 2) - 1}.taints", REMOVED),
        ],
        says=[r"health\.example\.net/ecc"],
        change=[r"toleration|taint"],
        never=RELAX,
    )


@planted("selector: would match, and is superseded", PLAIN, PAIR)
def the_only_match_is_superseded(d: Dress) -> Planted:
    newer = [d.slice(d.all(), name, f"newer-{name}", {"generation": 2}) for name in d.nodes]
    return Planted(
        [*d.fleet(only(d)), *newer, d.ask(d.want(d.is_(d.attribute[2]))), d.waiting()],
        d.asked,
        r"slice-superseded",
        rf"slice-{d.nodes[0][:-1]}",
        [gone(*(("ResourceSlice", f"newer-{name}") for name in d.nodes))],
        says=[r"generation", r"\b2\b"],
        never=RELAX,
    )


@planted("selector: would match, and its node is not there", PLAIN, FLEET)
def the_only_match_is_on_a_node_that_is_gone(d: Dress) -> Planted:
    lost = d.slice(only(d), "lost-node", "slice-lost")
    return Planted(
        [*d.fleet(), lost, d.ask(d.want(d.is_(d.attribute[2]))), d.waiting()],
        d.asked,
        r"slice-node-missing|node-missing",
        r"lost-node|slice-lost",
        [edit("ResourceSlice", "slice-lost", "spec.nodeName", d.at)],
        says=[r"no (such )?Node|does not exist|not there|is missing|not exist|no node"],
        never=RELAX,
    )


@planted("selector: would match, and its node is cordoned", PLAIN, FLEET)
def the_only_match_is_on_a_cordoned_node(d: Dress) -> Planted:
    return Planted(
        [
            *d.fleet(),
            node("spare", unschedulable=True),
            d.slice(only(d), "spare"),
            d.ask(d.want(d.is_(d.attribute[2]))),
            d.waiting(),
        ],
        d.asked,
        r"node-cordoned",
        r"node spare",
        [edit("Node", "spare", "spec.unschedulable", REMOVED)],
        says=[r"cordoned"],
        change=[r"kubectl uncordon spare"],
        never=RELAX,
    )
