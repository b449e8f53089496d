/**
 * Cases in which the decision is not KAI's, by class, with the reason. The list only shrinks: a case that agrees has to
 * be removed from it, and a new difference is a defect.
 *
 * tie: as good by every preference. better: less is disrupted, or a queue gets what it deserves. policy: another rule on
 * purpose, named in docs/scheduler.md. internals: about something that only KAI's own snapshot has.
 */
export type DifferenceClass = "tie" | "better" | "policy" | "internals";

export const knownDifferences: Readonly<Record<DifferenceClass, Readonly<Record<string, string>>>> = {
  tie: {
    allocate__allocateTopology__TestHandleTopologyAllocation__007: "as good a place; ties go to the first name",
    allocate__allocateTopology__TestHandleTopologyAllocation__008: "as good a place; ties go to the first name",
    allocate__allocateTopology__TestHandleTopologyAllocation__015: "as good a place; ties go to the first name",
    allocate__allocateTopology__TestHandleTopologyAllocation__017: "as good a place; ties go to the first name",
    allocate__allocateTopology__TestHandleTopologyAllocation__018: "as good a place; ties go to the first name",
    consolidation__consolidationGpuMemory__TestHandleConsolidationGpuMemory__002:
      "as good a place; ties go to the first name",
    consolidation__consolidation__TestConsolidation__017: "as good a place; ties go to the first name",
    consolidation__consolidation_subgroups__TestSubGroupsConsolidation__004: "as many pods move, of another job",
  },
  better: {
    integration_tests__reclaim__reclaim__TestReclaimIntegrationTest__009:
      "the queue beyond its fair share loses; the one within its share, of a lower priority, would take it back",
    consolidation__consolidation_subgroups__TestSubGroupsConsolidation__003:
      "a pod with one GPU moves, not one with three",
    integration_tests__reclaim__reclaim__TestReclaimIntegrationTest__007:
      "KAI's own name for its result is a bug in allocate; here the queue below its quota gets its GPU",
  },
  policy: {
    integration_tests__consolidation_and_reclaim__consolidation_and_reclaim__TestConsolidateAndReclaimIntegrationTest__000:
      "one pod is evicted and none moved; KAI evicts a smaller one and moves another",
    preempt__preempt_elastic__TestHandlePreemptElastic__008:
      "a victim that fits elsewhere is evicted and placed there in the next cycle",
    reclaim__reclaim__TestHandleReclaim__024:
      "a victim that fits elsewhere is evicted and placed there in the next cycle",
    reclaim__reclaim__TestHandleReclaim__025:
      "a victim that fits elsewhere is evicted and placed there in the next cycle",
    reclaim__reclaim__TestHandleReclaim__034:
      "a victim that fits elsewhere is evicted and placed there in the next cycle",
  },
  internals: {
    allocate__allocateFractionalGpu__TestHandleFractionalGPUAllocation__014:
      "a pod begins as Pipelined, which no cluster shows",
    allocate__allocateMIG__TestHandleMIGAllocation__003: "a mark for legacy MIG that only KAI's own snapshot has",
    allocate__allocateMIG__TestHandleMIGAllocation__004: "a mark for legacy MIG that only KAI's own snapshot has",
    integration_tests__allocate__allocateMIG__TestHandleMIGAllocation__003:
      "a mark for legacy MIG that only KAI's own snapshot has",
    integration_tests__allocate__allocateMIG__TestHandleMIGAllocation__004:
      "a mark for legacy MIG that only KAI's own snapshot has",
  },
};
