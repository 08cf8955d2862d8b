// Written by `python -m tests.ui.answer_types` from scheduler/ui/answers.py and tests/cli/answers.py.
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

  /** Beside each answer that is followed: its version, and when it was made, in milliseconds since 1970. */
  interface Answered {
    version: number;
    asOf: number;
  }

  /** Where answers come from, whether they can change, and what is not seen. */
  interface About {
    source: string;
    live: boolean;
    problems: string[];
  }

  /** The cluster in short. Lists have an end; `*_count` count all. */
  interface Overview extends Answered {
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
  interface Devices extends Answered {
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

  /** One device. */
  interface OneDevice extends Answered {
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
    name: string;
    more: number;
    tainted: Record<string, string>;
    attributes: Record<string, Record<string, unknown>>;
    nominated: string[];
  }

  /** The pods that wait: how many, for which kinds of causes, and a row for those of one owner and cause. */
  interface Pending extends Answered {
    waiting: number;
    notAsked: number;
    kinds: Record<string, number>;
    problems: string[];
    notes: string[];
    pods: PendingRow[];
    running: Record<string, number>;
    unlisted: string[];
    again: boolean;
  }

  /** What `explain` says of a pod, when it was created ("" where it does not say it), and what has happened to it. */
  interface PodAnswer extends Answered {
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
    created: string;
    history: HistoryLine[];
    unlisted: string[];
  }

  /** A question that was played; `more` pods are left out. */
  interface Played {
    placed: number;
    refused: number;
    end: number;
    allocated: Record<string, Share>;
    pods: PlayedPod[];
    overTime?: Moment[];
    now: Record<string, number>;
    problems: string[];
    text: string;
    more: number;
    evicted: string[];
    notes: string[];
  }

  /** What would have to move for a pod. */
  interface RoomPlan {
    outcome: "fits" | "none" | "plan" | "unknown";
    text: string;
    pod: PodOfRoom;
    cordoned: string | null;
    moves: Move[];
    budgets: UsedBudget[];
    movesMax: number;
    questions: number;
    nodes: number;
    cannotMove: Record<string, number>;
    warnings: string[];
    commands: string[];
    reason?: string | null;
    now: Record<string, number>;
    problems: string[];
  }

  /** Who holds a device, and where they would go; `more` that stay are left out. The first device was asked about. */
  interface DrainPlan {
    outcome: "free" | "none" | "plan" | "unknown";
    text: string;
    devices: DeviceName[];
    holders: HolderOfDevice[];
    budgets: UsedBudget[];
    questions: number;
    notes: string[];
    warnings: string[];
    rules: Record<string, unknown>[];
    commands: string[];
    now: Record<string, number>;
    problems: string[];
    more: number;
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
    names: string[];
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

  /** Of one device class. */
  interface Share {
    share: number;
    devices: number;
    used: number;
  }

  /** A pod that waited, or arrived; times in seconds from the beginning. */
  interface PlayedPod {
    namespace: string;
    name: string;
    outcome: "fits" | "waits" | "unschedulable" | "error" | "gated" | "refused" | "unknown";
    at: number;
    bound: number | null;
    ended: number | null;
    node: string | null;
    devices: GivenDevice[];
    reason?: string | null;
    refusals?: Refusal[] | null;
  }

  /** How things stood, in seconds from the beginning. */
  interface Moment {
    at: number;
    waiting: number;
    allocated: Record<string, ShareThen>;
  }

  /** The pod that is to fit. */
  interface PodOfRoom {
    namespace: string;
    name: string;
    node: string | null;
    devices: GivenDevice[];
  }

  /** A pod that would have to go from one node to another. */
  interface Move {
    namespace: string;
    name: string;
    from: string;
    to: string;
    devices: GivenDevice[];
    given: GivenDevice[];
    controller: string;
    namedClaims: string[];
    step: number;
  }

  /** A PodDisruptionBudget, and how many of its pods the plan takes. */
  interface UsedBudget {
    namespace: string;
    name: string;
    used: number;
    allowed: number;
    text: string;
  }

  /** A device. */
  interface DeviceName {
    driver: string;
    pool: string;
    device: string;
  }

  /** A pod that has the device, or goes with one that has it. */
  interface HolderOfDevice {
    namespace: string;
    name: string;
    from: string;
    devices: GivenDevice[];
    step?: number | null;
    to?: string | null;
    given?: GivenDevice[];
    controller?: string | null;
    namedClaims?: string[];
    why?: string | null;
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

  /** A device of one of the pod's claims. */
  interface GivenDevice {
    claim: string;
    request: string;
    driver: string;
    pool: string;
    device: string;
    consumedCapacity?: Record<string, string> | null;
    adminAccess?: boolean | null;
    shareID?: string | null;
  }

  /** Nodes that one plugin refuses for one reason. */
  interface Refusal {
    plugin: string;
    reason: string;
    devices: string[];
    count: number;
    nodes: string[];
  }

  /** Of one device class, at a moment. */
  interface ShareThen {
    share: number;
    fragmentation: number;
  }
}
