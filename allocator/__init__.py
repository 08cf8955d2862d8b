"""The structured device allocator: claims and published devices in, an allocation or the reason why not out.

Pure: no I/O, no clock, no randomness; arguments are never changed but for the caches inside `Inventory`
and `InUse`, which no answer depends on. Imports `cel`, `msgspec` and the standard library.

To be read in this order; a folder imports from those above it only, and so does a module within its folder's list:

  values     claims and devices as values
  requests   what a claim asks for, and which devices accept it
  pools      what nodes have, and what of it is in use
  search     the search for devices of one node
  answers    the inventory and the questions asked of it: what others call
  placement  where several places fit: which leaves the least in pieces
"""

from allocator.answers.after_release import could_serve
from allocator.answers.allocate import allocate, allocate_in_parts
from allocator.answers.class_usage import ClassUsage, FreeDevices, class_usage, free_devices, lacking, one_device
from allocator.answers.explanation import Explanation, explain
from allocator.answers.funnel import Funnel, Step
from allocator.answers.inventory import Inventory
from allocator.answers.prefilter import candidate_nodes
from allocator.answers.question import NO_SHARE_IDS, AllocationRequest
from allocator.pools.faults import INCOMPLETE_FAULTS, INVALID_FAULTS, Fault, FaultKind, pool_faults
from allocator.pools.in_use import InUse, Ledger
from allocator.pools.node_match import NodeSelectorError, check_node_selector, match_node_selector
from allocator.pools.node_pools import NodePools
from allocator.pools.outcome import (
    INVALID_POOLS,
    Allocated,
    AllocationResult,
    BudgetExhausted,
    Unfinished,
    Unsatisfiable,
)
from allocator.pools.overdrawn import newest_slices, overdrawn_capacities, overdrawn_counters
from allocator.pools.supposed_use import SupposedUse, only_devices
from allocator.pools.vanished import vanished_devices
from allocator.requests.device_taints import prevent_allocation
from allocator.requests.selectors import first_failure
from allocator.search.stages import Stage
from allocator.values.decode import decode_slice
from allocator.values.decode_claims import decode_allocation, decode_claim_spec, decode_class
from allocator.values.decode_node_selector import decode_node_selector
from allocator.values.encode import encode_allocation, encode_node_selector
from allocator.values.features import ALL_SHORTCUTS, NEWEST_RELEASE, RELEASES, Features, Shortcuts
from allocator.values.meter import STEP, PausedError
from allocator.values.model import (
    OPTIONAL_NODE_OPERATIONS,
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
    DeviceTaint,
    DeviceToleration,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    NodeView,
    PoolId,
    ResourceSlice,
)

__all__ = [
    "ALL_SHORTCUTS",
    "INCOMPLETE_FAULTS",
    "INVALID_FAULTS",
    "INVALID_POOLS",
    "NEWEST_RELEASE",
    "NO_SHARE_IDS",
    "OPTIONAL_NODE_OPERATIONS",
    "RELEASES",
    "RESULTS_MAX",
    "STEP",
    "Allocated",
    "Allocation",
    "AllocationConfig",
    "AllocationError",
    "AllocationRequest",
    "AllocationResult",
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
    "DeviceTaint",
    "DeviceToleration",
    "Explanation",
    "Fault",
    "FaultKind",
    "Features",
    "FreeDevices",
    "Funnel",
    "InUse",
    "Inventory",
    "Ledger",
    "NodePools",
    "NodeSelector",
    "NodeSelectorError",
    "NodeSelectorRequirement",
    "NodeSelectorTerm",
    "NodeView",
    "PausedError",
    "PoolId",
    "ResourceSlice",
    "Shortcuts",
    "Stage",
    "Step",
    "SupposedUse",
    "Unfinished",
    "Unsatisfiable",
    "allocate",
    "allocate_in_parts",
    "candidate_nodes",
    "check_node_selector",
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
    "one_device",
    "only_devices",
    "overdrawn_capacities",
    "overdrawn_counters",
    "pool_faults",
    "prevent_allocation",
    "vanished_devices",
]
