// Pods that wait, put together by whose they are, by cause or by namespace. No markup, so that node can test it.

/** @typedef {Api.PendingRow} Row */
/** A cause, of the pods of one owner that have it.
 * @typedef {{row: Row, pods: string[], isFirstLook: boolean}} Cause */
/** @typedef {{key: string, name: string, of: string, pods: number, fit: number, created: string, causes: Map<string, Cause>}} Group */

const byOwner = (/** @type {Row} */ row) => row.owner;
/** What rows are put together by, as the address has it. */
export const BY = new Map([
  ["owner", byOwner],
  ["cause", (/** @type {Row} */ row) => row.kind],
  ["namespace", (/** @type {Row} */ row) => row.namespace],
]);

const byName = new Intl.Collator("en", { numeric: true });
const oldestFirst = (/** @type {Group} */ one, /** @type {Group} */ other) => compared(one.created || "unknown", other.created || "unknown");
/** Orders of groups, as the address has them; what is equal is in the order of names. */
export const ORDERS = new Map([
  ["oldest", oldestFirst],
  ["most pods", (/** @type {Group} */ one, /** @type {Group} */ other) => other.pods - one.pods],
  ["name", () => 0],
]);

/**
 * Groups of the rows, in this order; the cause of most pods comes first. Causes of one owner that read alike are one: of a PodGroup the pods have several makers.
 * @param {readonly Row[]} rows @param {string} by a key of `BY`, else by owner @param {string} order a key of `ORDERS`, else the oldest first
 */
export function together(rows, by, order) {
  const keyOf = BY.get(by) ?? byOwner;
  /** @type {Map<string, Group>} */
  const groups = new Map();
  for (const row of rows) {
    const key = keyOf(row);
    const group = groups.get(key) ?? { key, ...titled(key), pods: 0, fit: 0, created: "", causes: new Map() };
    groups.set(key, group);
    group.pods += row.names.length;
    group.fit += row.outcome === "fits" ? row.names.length : 0;
    if (row.created && (!group.created || row.created < group.created)) group.created = row.created;
    const said = JSON.stringify([row.owner, row.kind, row.cause, row.change]);
    const cause = group.causes.get(said) ?? { row, pods: [], isFirstLook: false };
    group.causes.set(said, cause);
    cause.pods.push(...row.names.map((name) => `${row.namespace}/${name}`));
    cause.isFirstLook ||= row.firstLook;
  }
  for (const group of groups.values()) {
    group.causes = new Map([...group.causes].sort(([, one], [, other]) => other.pods.length - one.pods.length));
  }
  const compare = ORDERS.get(order) ?? oldestFirst;
  return [...groups.values()].sort((one, other) => compare(one, other) || byName.compare(one.name, other.name) || compared(one.key, other.key));
}

/** The rows that the address asks for.
 * @param {readonly Row[]} rows @param {{kind: string, namespace: string, search: string}} wanted empty: all */
export function filtered(rows, { kind, namespace, search }) {
  const word = search.toLowerCase();
  return rows.filter(
    (row) =>
      (!kind || row.kind === kind) &&
      (!namespace || row.namespace === namespace) &&
      (!word || `${row.owner} ${row.namespace}/${row.names.join(" ")} ${row.cause} ${row.change}`.toLowerCase().includes(word)),
  );
}

/** How many pods rows stand for.
 * @param {readonly Row[]} rows */
export function podsIn(rows) {
  return rows.reduce((sum, row) => sum + row.names.length, 0);
}

/** The name and the kind that a group's key has.
 * @param {string} key KIND/NAMESPACE/NAME of an owner, or a name */
export function titled(key) {
  const [of = "", ...name] = key.split("/");
  return name.length ? { name: name.join("/"), of } : { name: of, of: "" };
}

/** What a change says beside its commands, which stand below it: nothing, where it is one.
 * @param {string} text @param {readonly string[]} commands */
export function withoutCommands(text, commands) {
  const changes = text.replace(/^to make it \w+: /, "");
  const left = commands.filter(Boolean).reduce((said, command) => said.replace(`: ${command}`, () => "").replace(command, () => ""), changes);
  return left.replace(/^(; (then )?)+/, "");
}

/** @param {string} one @param {string} other */
function compared(one, other) {
  return one < other ? -1 : Number(one > other);
}
