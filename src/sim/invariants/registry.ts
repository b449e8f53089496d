/**
 * Facts that must hold at every revision. Every invariant has one of these numbers.
 */
export const invariantFacts: Readonly<Record<string, string>> = {
  I1: "no device, share or counter is given out beyond its capacity, in flight and not yet released included",
  I2: "a reservation exists if and only if a consumer or an active intent names it",
  I3: "there is one reservation for a node and group",
  I4: "of a gang none or at least the minimum is bound, and a regression is flagged",
  I5: "a write commits only if what it was decided on has not changed since",
  I6: "all reported numbers come from one revision, and sums close",
  I7: "bind, adopt and delete match the UID",
  I8: "reads never go back, restarts included",
  I9: "a watch is ordered, unique, atomic, reliable, resumable and filtered",
  I10: "quota in use is the sum of live allocations, never negative, and nothing at rest",
  I11: "every intent ends applied, rejected or abandoned, once",
  I12: "one epoch writes: an older one is refused by its client, or fails its precondition",
  I13: "destructive acts need a fresh read and a precondition on UID and version",
  I14: "a volume or device has one holder until the old node confirms or is fenced",
  I15: "allocatable is free plus used plus reserved plus unhealthy, and flaps change nothing",
  I16: "nothing is evicted unless its plan binds",
  I17: "after the faults stop everything is stable within a bound, and then silent",
  I18: "every pending workload has one current reason, which goes when its cause goes",
  I19: "repeating a step or an event changes nothing",
  I20: "the same seed has the same history",
  I21: "a failed read is unknown: never zero, never a deletion",
  I22: "a status never describes an older object than the one it is attached to",
};
