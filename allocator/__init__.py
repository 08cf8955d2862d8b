"""The structured device allocator: claims and published devices in, an allocation or the reason why not out.

Pure: no I/O, no clock, no randomness; arguments are never changed but for the caches inside `Inventory`
and `InUse`, which no answer depends on. Imports `cel`, `msgspec` and the standard library.

To be read in this order, in which no module imports a later one:

  values     features, names, model; json_fields, decode_node_selector, decode, decode_claims, encode;
             masks, journal, meter
  claims     slot_records, selectors (CEL, answered once), capacity, requests (claims and classes to a plan);
             taints, slot_masks (which devices a slot of the plan accepts)
  nodes      node_match, in_use (the ledger), supposed_use, attribute_index, pools (each as nodes see it), node_use,
             outcome, node_pools (all of a node in a row)
  searching  constraints, counters, shares; problem; matching, bounds, counter_bounds, share_bounds (what cuts);
             census, picked, search_state, choices, search
  clusters   paused_searches, remembered_plans, offers, inventory; prefilter (nodes not worth asking about)
  calls      question, result, remembered, explain, allocate, after_release, class_usage

overdrawn and vanished look at what is allocated already, for others.
"""

from allocator.after_release import could_serve
from allocator.allocate import allocate, allocate_in_parts, explain
from allocator.census import Stage
from allocator.class_usage import ClassUsage, FreeDevices, class_usage, free_devices, lacking
from allocator.decode import decode_slice
from allocator.decode_claims import claim_spec_text, decode_allocation, decode_claim_spec, decode_class
from allocator.decode_node_selector import decode_node_selector
from allocator.encode import encode_allocation, encode_node_selector
from allocator.features import ALL_SHORTCUTS, Features, Shortcuts
from allocator.in_use import InUse, Ledger
from allocator.inventory import Inventory
from allocator.meter import STEP, PausedError
from allocator.model import (
    RESULTS_MAX,
    Allocation,
    AllocationConfig,
    AllocationError,
    Attribute,
    Claim,
    ClaimSpec,
    DecodeError,
    Device,
    DeviceClass,
    DeviceId,
    DeviceResult,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    NodeView,
    PoolId,
    ResourceSlice,
    Taint,
    Toleration,
)
from allocator.node_match import NodeSelectorError, check_node_selector, match_node_selector
from allocator.node_pools import NodePools
from allocator.outcome import INVALID_POOLS, Allocated, BudgetExhausted, Outcome, Unfinished, Unsatisfiable
from allocator.overdrawn import newest_slices, overdrawn_capacities, overdrawn_counters
from allocator.prefilter import candidate_nodes
from allocator.question import NO_SHARE_IDS, Question
from allocator.selectors import first_failure
from allocator.supposed_use import SupposedUse, only
from allocator.taints import prevent_allocation
from allocator.vanished import vanished_devices

__all__ = [
    "ALL_SHORTCUTS",
    "INVALID_POOLS",
    "NO_SHARE_IDS",
    "RESULTS_MAX",
    "STEP",
    "Allocated",
    "Allocation",
    "AllocationConfig",
    "AllocationError",
    "Attribute",
    "BudgetExhausted",
    "Claim",
    "ClaimSpec",
    "ClassUsage",
    "DecodeError",
    "Device",
    "DeviceClass",
    "DeviceId",
    "DeviceResult",
    "Features",
    "FreeDevices",
    "InUse",
    "Inventory",
    "Ledger",
    "NodePools",
    "NodeSelector",
    "NodeSelectorError",
    "NodeSelectorRequirement",
    "NodeSelectorTerm",
    "NodeView",
    "Outcome",
    "PausedError",
    "PoolId",
    "Question",
    "ResourceSlice",
    "Shortcuts",
    "Stage",
    "SupposedUse",
    "Taint",
    "Toleration",
    "Unfinished",
    "Unsatisfiable",
    "allocate",
    "allocate_in_parts",
    "candidate_nodes",
    "check_node_selector",
    "claim_spec_text",
    "class_usage",
    "could_serve",
    "decode_allocation",
    "decode_claim_spec",
    "decode_class",
    "decode_node_selector",
    "decode_slice",
    "encode_allocation",
    "encode_node_selector",
    "explain",
    "first_failure",
    "free_devices",
    "lacking",
    "match_node_selector",
    "newest_slices",
    "only",
    "overdrawn_capacities",
    "overdrawn_counters",
    "prevent_allocation",
    "vanished_devices",
]
