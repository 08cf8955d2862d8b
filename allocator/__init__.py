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

from allocator.answers.after_release import could_serve as could_serve
from allocator.answers.allocate import allocate as allocate
from allocator.answers.allocate import allocate_in_parts as allocate_in_parts
from allocator.answers.class_usage import ClassUsage as ClassUsage
from allocator.answers.class_usage import FreeDevices as FreeDevices
from allocator.answers.class_usage import class_usage as class_usage
from allocator.answers.class_usage import free_devices as free_devices
from allocator.answers.class_usage import lacking as lacking
from allocator.answers.class_usage import one_device as one_device
from allocator.answers.explanation import Explanation as Explanation
from allocator.answers.explanation import explain as explain
from allocator.answers.funnel import Funnel as Funnel
from allocator.answers.funnel import Step as Step
from allocator.answers.inventory import Inventory as Inventory
from allocator.answers.prefilter import candidate_nodes as candidate_nodes
from allocator.answers.question import NO_SHARE_IDS as NO_SHARE_IDS
from allocator.answers.question import AllocationRequest as AllocationRequest
from allocator.pools.faults import INCOMPLETE_FAULTS as INCOMPLETE_FAULTS
from allocator.pools.faults import INVALID_FAULTS as INVALID_FAULTS
from allocator.pools.faults import Fault as Fault
from allocator.pools.faults import FaultKind as FaultKind
from allocator.pools.faults import pool_faults as pool_faults
from allocator.pools.in_use import InUse as InUse
from allocator.pools.in_use import Ledger as Ledger
from allocator.pools.node_match import NodeSelectorError as NodeSelectorError
from allocator.pools.node_match import check_node_selector as check_node_selector
from allocator.pools.node_match import match_node_selector as match_node_selector
from allocator.pools.node_pools import NodePools as NodePools
from allocator.pools.outcome import INVALID_POOLS as INVALID_POOLS
from allocator.pools.outcome import Allocated as Allocated
from allocator.pools.outcome import AllocationResult as AllocationResult
from allocator.pools.outcome import BudgetExhausted as BudgetExhausted
from allocator.pools.outcome import Unfinished as Unfinished
from allocator.pools.outcome import Unsatisfiable as Unsatisfiable
from allocator.pools.overdrawn import newest_slices as newest_slices
from allocator.pools.overdrawn import overdrawn_capacities as overdrawn_capacities
from allocator.pools.overdrawn import overdrawn_counters as overdrawn_counters
from allocator.pools.supposed_use import SupposedUse as SupposedUse
from allocator.pools.supposed_use import only_devices as only_devices
from allocator.pools.vanished import vanished_devices as vanished_devices
from allocator.requests.device_taints import prevent_allocation as prevent_allocation
from allocator.requests.selectors import first_failure as first_failure
from allocator.search.stages import Stage as Stage
from allocator.values.decode import decode_slice as decode_slice
from allocator.values.decode_claims import decode_allocation as decode_allocation
from allocator.values.decode_claims import decode_claim_spec as decode_claim_spec
from allocator.values.decode_claims import decode_class as decode_class
from allocator.values.decode_node_selector import decode_node_selector as decode_node_selector
from allocator.values.encode import encode_allocation as encode_allocation
from allocator.values.encode import encode_node_selector as encode_node_selector
from allocator.values.features import ALL_SHORTCUTS as ALL_SHORTCUTS
from allocator.values.features import NEWEST_RELEASE as NEWEST_RELEASE
from allocator.values.features import RELEASES as RELEASES
from allocator.values.features import Features as Features
from allocator.values.features import Shortcuts as Shortcuts
from allocator.values.meter import STEP as STEP
from allocator.values.meter import PausedError as PausedError
from allocator.values.model import OPTIONAL_NODE_OPERATIONS as OPTIONAL_NODE_OPERATIONS
from allocator.values.model import RESULTS_MAX as RESULTS_MAX
from allocator.values.model import Allocation as Allocation
from allocator.values.model import AllocationConfig as AllocationConfig
from allocator.values.model import AllocationError as AllocationError
from allocator.values.model import Attribute as Attribute
from allocator.values.model import Claim as Claim
from allocator.values.model import ClaimSpec as ClaimSpec
from allocator.values.model import DecodeError as DecodeError
from allocator.values.model import Device as Device
from allocator.values.model import DeviceClass as DeviceClass
from allocator.values.model import DeviceId as DeviceId
from allocator.values.model import DeviceResult as DeviceResult
from allocator.values.model import DeviceTaint as DeviceTaint
from allocator.values.model import DeviceToleration as DeviceToleration
from allocator.values.model import NodeSelector as NodeSelector
from allocator.values.model import NodeSelectorRequirement as NodeSelectorRequirement
from allocator.values.model import NodeSelectorTerm as NodeSelectorTerm
from allocator.values.model import NodeView as NodeView
from allocator.values.model import PoolId as PoolId
from allocator.values.model import ResourceSlice as ResourceSlice
