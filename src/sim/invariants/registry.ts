/**
 * The kinds of invariant. Each invariant of a scenario has one of these ids and states its own fact, a case of this
 * one. Some hold after every step, some at rest: after the faults have stopped and the store no longer changes.
 */
export const invariantFacts: Readonly<Record<string, string>> = {
  I1: "no device, GPU share or counter is allocated beyond its capacity; writes in flight and what is not released yet count",
  I2: "a reservation exists if and only if a consumer or an active intent names it",
  I3: "there is one reservation for a node and group",
  I4: "of a gang none or at least the minimum is bound, and a regression is flagged",
  I5: "a write commits only if the objects that it was decided on have not changed since",
  I6: "all reported numbers are of one revision, and the parts of a total add up to it",
  I7: "bind, adopt and delete match the UID",
  I8: "reads never go back, restarts included",
  I9: "a watch is ordered, unique, atomic, reliable, resumable and filtered",
  I10: "usage is counted once for each pod or allocation that exists, and is never negative",
  I11: "every intent ends applied, rejected or abandoned, once",
  I12: "one epoch writes: an older one is refused by its client, or fails its precondition",
  I13: "destructive acts need a fresh read and a precondition on UID and version",
  I14: "a volume or device has one holder until the old node confirms or is fenced",
  I15: "free, used, reserved and unhealthy devices add up to the total, and a node or device that fails and recovers does not change it",
  I16: "nothing is evicted unless its plan binds",
  I17: "within a bounded time after the faults stop, the cluster has the state that its specs ask for, and no more writes follow",
  I18: "every pending workload has one current reason, which goes when its cause goes",
  I19: "repeating a step or an event changes nothing",
  I20: "the same seed has the same history",
  I21: "a failed read is unknown: never zero, never a deletion",
  I22: "a status never describes an older object than the one it is attached to",
  I23: "a controller that has seen an object as it is sends no write that changes nothing",
};
