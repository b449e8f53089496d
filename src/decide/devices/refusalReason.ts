/** Why a pod's claims get no devices, as a label of a metric. The message names the claim and the node. */
export type RefusalReason =
  /** A claim is missing, not created yet, terminating, or belongs to another pod. */
  | "NotReady"
  /** Another pod's allocation of the same claim is being written. */
  | "BeingAllocated"
  /** A request names a class that does not exist, or has an unsupported type. */
  | "BadRequest"
  /** The node cannot reach the devices of the claim, or they can no longer be bound. */
  | "NotOnNode"
  /** The node has no free devices that satisfy the claims. */
  | "NoDevices"
  /** The search ended with an error. */
  | "Error";
