/**
 * Why a pod's claims get no devices, in few words: a label of a metric. The sentence beside it says which claim and
 * which node.
 */
export type RefusalReason =
  /** A claim is missing, not made yet, being deleted or not the pod's. */
  | "NotReady"
  /** Another pod's allocation of the same claim is being written. */
  | "BeingAllocated"
  /** A request names a class that does not exist, or asks in a way that is not supported. */
  | "BadRequest"
  /** What the claim has cannot be reached from the node, or can no longer be bound. */
  | "NotOnNode"
  /** The node has no free devices that satisfy the claims. */
  | "NoDevices"
  /** The search ended with an error. */
  | "Error";
