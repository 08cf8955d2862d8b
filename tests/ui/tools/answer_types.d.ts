// Written by `python -m tests.ui.answer_types` from scheduler/ui/answers.py.
declare namespace Api {
  /** What each address below /api/ answers. */
  interface Answers {
    about: About;
    overview: Overview;
    devices: Devices;
    device: OneDevice;
    pending: Pending;
    pod: PodAnswer;
    whatif: Played;
    "whatif?room": RoomPlan;
    "whatif?drain": DrainPlan;
  }

  /** Where answers come from, whether they can change, and what is not seen. */
  interface About {
    source: string;
    live: boolean;
    problems: string[];
  }

  /** The cluster in short. Lists have an end; `*_count` count all. */
  interface Overview {
    version: number;
    asOf: number;
    waiting: number;
    count: number;
    nodes: number;
    states: States;
    classes: ClassSummary[];
    classes_count: number;
    profiles: ProfileSummary[];
    profiles_count: number;
    held: number;
    holders: Holder[];
    holders_count: number;
    warnings: Finding[];
    warnings_count: number;
    remarks: Finding[];
    notes: string[];
  }

  /** All devices as a picture has them. */
  interface Devices {
    version: number;
    asOf: number;
    count: number;
    nodes: number;
    states: States;
    classes: ClassSummary[];
    by: string;
    attributes: string[];
    near: string;
    nears: string[];
    rack: string;
    labels: string[];
    racks: Record<string, string>;
    shares: [number, number][];
    nominated: Record<string, string[]>;
    frames: PhysicalDevice[];
    texts: string[];
    columns: DeviceColumns;
    left_out: string[];
    notes: string[];
  }

  /** One device, as an answer that is followed (`Answered`). */
  interface OneDevice {
    driver: string;
    pool: string;
    device: string;
    node: string | null;
    classes: string[];
    state: "blocked" | "closed" | "free" | "shared" | "tainted" | "unusable" | "used";
    taints: string[];
    users: DeviceUser[];
    blocked_by: Blocker[];
    capacity: Record<string, Capacity>;
    version: number;
    asOf: number;
    name: string;
    more: number;
    tainted: Record<string, string>;
    attributes: Record<string, Record<string, unknown>>;
    nominated: string[];
  }

  /** The pods that wait: how many, for which kinds of causes, and a row for those of one owner and cause. */
  interface Pending {
    version: number;
    asOf: number;
    waiting: number;
    notAsked: number;
    kinds: Record<string, number>;
    problems: string[];
    notes: string[];
    pods: PendingRow[];
    unlisted: string[];
    again: boolean;
  }

  /** What `explain` says of a pod, when it was created ("" where it does not say it), and what has happened to it. */
  interface PodAnswer {
    subject: string;
    fits: boolean;
    outcome: "bound" | "error" | "fits" | "gated" | "refused" | "unknown" | "unschedulable" | "unserved" | "waits";
    node: string | null;
    message: string;
    kind: string;
    cause: string;
    objects: string[];
    verdict: string;
    advice: string;
    command: string;
    changes: Step[];
    also: Step[];
    questions: number;
    exhausted: boolean;
    siblings: number;
    siblings_fit: number;
    devices: Device[];
    nodes: NodeGroup[];
    scores: NodeScore[];
    funnels: RequestFunnel[];
    failures: SelectorFailure[];
    left_out: string[];
    notes: string[];
    version: number;
    asOf: number;
    created: string;
    history: HistoryLine[];
    unlisted: string[];
  }

  /** A question that was played; `now` is the share of each class that is given out now, `more` pods are left out. */
  interface Played {
    text: string;
    allocated: Record<string, GivenOut>;
    now: Record<string, number>;
    pods: PlayedPod[];
    more: number;
    evicted: string[];
    notes: string[];
    problems: string[];
  }

  /** What would have to move for a pod. */
  interface RoomPlan {
    outcome: string;
    text: string;
    budgets: PlannedBudget[];
    warnings: string[];
    problems: string[];
    commands: string[];
    pod: RoomPod;
    moves: PlannedPod[];
    cannotMove: Record<string, number>;
  }

  /** Who holds a device, and where they would go; `more` that stay are left out. The first device was asked about. */
  interface DrainPlan {
    outcome: string;
    text: string;
    budgets: PlannedBudget[];
    warnings: string[];
    problems: string[];
    commands: string[];
    devices: GivenDevice[];
    holders: PlannedPod[];
    more: number;
    notes: string[];
  }

  /** How many devices are in each state; together they are all there are. */
  interface States {
    free: number;
    shared: number;
    used: number;
    tainted: number;
    blocked: number;
    closed: number;
    unusable: number;
  }

  /** A device class, over all nodes that are listed. */
  interface ClassSummary {
    name: string;
    devices: number;
    free: number;
    states: States;
    largest: Largest[];
  }

  /** Partitions of one size: devices of a driver that consume as much of counters. */
  interface ProfileSummary {
    driver: string;
    profile: string;
    counters: Record<string, string>;
    devices: number;
    free: number;
    states: States;
    together: number;
    is_exact: boolean;
  }

  /** A namespace whose claims have devices, or shares of them; `owners` are those with most. */
  interface Holder {
    namespace: string;
    devices: number;
    owners: OwnerShare[];
  }

  /** Something that is wrong, or of note. */
  interface Finding {
    kind: string;
    text: string;
    since: string | null;
    count: number;
    devices: string[];
  }

  /** A device that is published in pieces, as columns: `devices[i]` takes `widths[i]` of `units` from `places[i]` on. */
  interface PhysicalDevice {
    units: number;
    whole: number;
    devices: number[];
    places: number[];
    widths: number[];
  }

  /** All devices: each column has a position in `texts` for each device. */
  interface DeviceColumns {
    device: number[];
    pool: number[];
    driver: number[];
    node: number[];
    state: number[];
    group: number[];
    near: number[];
  }

  /** A claim that has a device, or a share of it: since when, and who makes its pods, if anybody does. */
  interface DeviceUser {
    claim: string;
    request: string;
    pods: string[];
    admin: boolean;
    consumed: Record<string, string>;
    owners: string[];
    since: string | null;
  }

  /** One thing that keeps a device from being given out. */
  interface Blocker {
    kind: "claim" | "counter" | "field" | "node" | "partition" | "plugin" | "pool" | "taint";
    name: string;
    text: string;
  }

  /** A capacity of a device. */
  interface Capacity {
    total: string;
    left: string;
  }

  /** Pods of one owner that wait for one cause: all their `names`, and the rest as it is of the first of them. */
  interface PendingRow {
    namespace: string;
    name: string;
    names: string[];
    label: string;
    owner: string;
    created: string;
    outcome: string;
    node: string;
    kind: string;
    cause: string;
    change: string;
    firstLook: boolean;
  }

  /** One change. */
  interface Step {
    kind: string;
    cause: string;
    change: string;
    command: string;
    objects: string[];
  }

  /** A device that the pod has, or would get. */
  interface Device {
    claim: string;
    request: string;
    driver: string;
    pool: string;
    device: string;
  }

  /** Nodes that refuse the pod alike; `devices`, where counted: of each request how many each rule took away. */
  interface NodeGroup {
    plugin: string;
    reason: string;
    devices: string[];
    count: number;
    nodes: string[];
  }

  /** A node on which the pod fits. */
  interface NodeScore {
    node: string;
    total: number;
    plugins: Record<string, number>;
  }

  /** What the rules leave of the devices for one request (or alternative), summed over the nodes that were counted. */
  interface RequestFunnel {
    claim: string;
    request: string;
    wanted: number;
    published: number;
    nodes: number;
    steps: FunnelStep[];
    node: string;
    node_published: number;
    node_left: number;
  }

  /** A CEL selector that fails for a device instead of answering. */
  interface SelectorFailure {
    of: string;
    expression: string;
    device: string;
    message: string;
    offset: number;
    shown: string;
  }

  /** What happened, and when for the last time; `first`: the first time, where it happened often. */
  interface HistoryLine {
    at: string;
    what: string;
    text: string;
    count: number;
    first: string;
  }

  /** How much of a class would be given out, from 0 to 1, and of how many devices. */
  interface GivenOut {
    share: number;
    devices: number;
  }

  /** What would become of a pod; `node` is null where it has none. */
  interface PlayedPod {
    namespace: string;
    name: string;
    outcome: string;
    node: string | null;
    devices: GivenDevice[];
    reason?: string;
    refusals?: NodeGroup[];
  }

  /** What a PodDisruptionBudget allows, and takes. */
  interface PlannedBudget {
    text: string;
  }

  /** The pod that room is made for. */
  interface RoomPod {
    namespace: string;
    name: string;
  }

  /** A pod of a plan, with its devices: its step, where it would go and what it would be given, or why it stays. */
  interface PlannedPod {
    namespace: string;
    name: string;
    from: string;
    devices: GivenDevice[];
    step?: number;
    to?: string;
    given?: GivenDevice[];
    why?: string;
  }

  /** A device of a claim. */
  interface GivenDevice {
    driver: string;
    pool: string;
    device: string;
  }

  /** The largest count that one request of one claim could be given now, asked of the allocator. */
  interface Largest {
    within: string;
    count: number;
    node: string | null;
    exact: boolean;
  }

  /** What the pods of one owner have: `deployment ml/chat`, a bare pod, or a claim that is reserved for nobody. */
  interface OwnerShare {
    owner: string;
    devices: number;
    pod: string;
  }

  /** One rule: how many devices it takes away, and how many it leaves. */
  interface FunnelStep {
    stage: string;
    text: string;
    removed: number;
    left: number;
    ends: boolean;
  }
}
