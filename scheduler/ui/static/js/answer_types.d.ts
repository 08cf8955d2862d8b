// Written by `python -m tests.ui.answer_types` from scheduler/ui/answers.py.

/** What each address below /api/ answers. */
export interface Answers {
  about: About;
  overview: Overview;
  whatif: Played;
  "whatif?room": RoomPlan;
}

/** Where answers come from, whether they can change, and what is not seen. */
export interface About {
  source: string;
  live: boolean;
  problems: string[];
}

/** The cluster in short. Lists have an end; `*_count` count all. */
export interface Overview {
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

/** How many devices are in each state; together they are all there are. */
export interface States {
  free: number;
  shared: number;
  used: number;
  tainted: number;
  blocked: number;
  closed: number;
  unusable: number;
}

/** A device class, over all nodes that are listed. */
export interface ClassSummary {
  name: string;
  devices: number;
  free: number;
  states: States;
  largest: Largest[];
}

/** Partitions of one size: devices of a driver that consume as much of counters. */
export interface ProfileSummary {
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
export interface Holder {
  namespace: string;
  devices: number;
  owners: OwnerShare[];
}

/** Something that is wrong, or of note. */
export interface Finding {
  kind: string;
  text: string;
  since: string | null;
  count: number;
  devices: string[];
}

/** The largest count that one request of one claim could be given now, asked of the allocator. */
export interface Largest {
  within: string;
  count: number;
  node: string | null;
  exact: boolean;
}

/** What the pods of one owner have: `deployment ml/chat`, a bare pod, or a claim that is reserved for nobody. */
export interface OwnerShare {
  owner: string;
  devices: number;
  pod: string;
}
