/** Which pods are evicted from a tainted device, and when, by the names that Kubernetes' own table gives the cases. */
import { describe, expect, test } from "vitest";
import { partly } from "../../../../testing/partly.ts";
import type {
  DeviceTaintRule,
  DeviceToleration,
  Pod,
  ResourceClaim,
  ResourceSlice,
} from "../../../model/kubernetes.generated.ts";
import { formatTime } from "../../../model/values/time.ts";
import { evictionOfPod, ruleCondition } from "./taintEviction.ts";

const nowMs = 1_000_000_000_000;
const at = (seconds: number) => nowMs + seconds * 1000;
const meta = (name: string, more: object = {}) => ({
  name,
  namespace: "default",
  uid: `uid-${name}`,
  resourceVersion: "1",
  ...more,
});
const pod = (more: { metadata?: object; spec?: object } = {}): Pod =>
  partly<Pod>({ metadata: meta("p", more.metadata), spec: { nodeName: "n1", ...more.spec } });
const claim = (
  more: { tolerations?: DeviceToleration[]; users?: string[]; device?: string; isAllocated?: boolean } = {},
): ResourceClaim =>
  partly<ResourceClaim>({
    metadata: meta("c"),
    spec: {},
    status: {
      ...(more.isAllocated !== false && {
        allocation: {
          devices: {
            results: [
              {
                request: "r",
                driver: "d",
                pool: "pool",
                device: more.device ?? "x",
                ...(more.tolerations && { tolerations: more.tolerations }),
              },
            ],
          },
        },
      }),
      reservedFor: (more.users ?? ["uid-p"]).map((uid) => ({ resource: "pods", name: "p", uid })),
    },
  });
const taint = (effect = "NoExecute", value = "v", sinceSeconds = 0) => ({
  key: "k",
  value,
  effect,
  timeAdded: formatTime(at(sinceSeconds)),
});
const slice = (taints: object[], more: { generation?: number; device?: string } = {}): ResourceSlice =>
  partly<ResourceSlice>({
    metadata: meta("s"),
    spec: {
      driver: "d",
      pool: { name: "pool", generation: more.generation ?? 1, resourceSliceCount: 1 },
      devices: [{ name: more.device ?? "x", taints }],
    },
  });
const rule = (deviceSelector: object | undefined, effect = "NoExecute"): DeviceTaintRule =>
  partly<DeviceTaintRule>({
    metadata: meta("rule"),
    spec: { ...(deviceSelector && { deviceSelector }), taint: taint(effect) },
  });
const tolerates = (more: Partial<DeviceToleration> = {}): DeviceToleration => ({
  key: "k",
  operator: "Exists",
  effect: "NoExecute",
  ...more,
});

interface Case {
  readonly name: string;
  readonly pod?: Pod;
  readonly claims?: readonly ResourceClaim[];
  readonly slices?: readonly ResourceSlice[];
  readonly rules?: readonly DeviceTaintRule[];
  /** The UID of the pod's group, where groups have claims. */
  readonly groupUid?: string;
  /** Seconds from now; undefined: never. */
  readonly leaves: number | undefined;
}

const cases: Case[] = [
  { name: "evict-pod-resourceclaim", slices: [slice([taint()])], leaves: 0 },
  {
    name: "evict-pod-resourceclaim-podgroup: the claim is reserved for the pod's group",
    claims: [claim({ users: ["uid-g"] })],
    slices: [slice([taint()])],
    groupUid: "uid-g",
    leaves: 0,
  },
  {
    name: "no-evict-pod-in-podgroup-without-claim",
    claims: [],
    slices: [slice([taint()])],
    groupUid: "uid-g",
    leaves: undefined,
  },
  {
    name: "a claim of a group does not affect its pods where groups have no claims",
    claims: [claim({ users: ["uid-g"] })],
    slices: [slice([taint()])],
    leaves: undefined,
  },
  {
    name: "evict-pod-resourceclaim-unrelated-changes: another device's taint changes nothing",
    slices: [slice([taint()]), slice([taint()], { device: "y" })],
    leaves: 0,
  },
  {
    name: "populate-pools, update-pools: a newer generation replaces the older ones",
    slices: [slice([], { generation: 1 }), slice([taint()], { generation: 2 })],
    leaves: 0,
  },
  {
    name: "evict-pod-later-many: each pod by its own toleration",
    claims: [claim({ tolerations: [tolerates({ tolerationSeconds: 10 })] })],
    slices: [slice([taint(), taint("NoExecute", "w")])],
    leaves: 10,
  },
  {
    name: "no-evict-pod-toleration-forever-many",
    claims: [claim({ tolerations: [tolerates()] })],
    slices: [slice([taint(), taint("NoExecute", "w")])],
    leaves: undefined,
  },
  {
    name: "multiple-claims-same-rule",
    claims: [claim(), { ...claim(), metadata: meta("d") } as ResourceClaim],
    rules: [rule({ driver: "d" })],
    leaves: 0,
  },
  {
    name: "multiple-claims-different-rules-order-1",
    claims: [
      claim({ device: "x", tolerations: [tolerates({ tolerationSeconds: 30 })] }),
      { ...claim({ device: "y" }), metadata: meta("d") } as ResourceClaim,
    ],
    rules: [rule({ device: "x" }), rule({ device: "y" })],
    leaves: 0,
  },
  {
    name: "multiple-claims-different-rules-order-2",
    claims: [
      claim({ device: "x", tolerations: [tolerates({ tolerationSeconds: 30 })] }),
      { ...claim({ device: "y" }), metadata: meta("d") } as ResourceClaim,
    ],
    rules: [rule({ device: "y" }), rule({ device: "x" })],
    leaves: 0,
  },
  {
    name: "cancel-eviction-reduce-taint: from NoExecute to NoSchedule",
    slices: [slice([taint("NoSchedule")])],
    leaves: undefined,
  },
  {
    name: "eviction-change-taint: the time counts from the new taint",
    claims: [claim({ tolerations: [tolerates({ tolerationSeconds: 60 })] })],
    slices: [slice([taint("NoExecute", "v", 20)])],
    leaves: 80,
  },
  {
    name: "no-evict-wrong-resourceclaim: a claim that is reserved for an earlier pod of the same name",
    claims: [claim({ users: ["uid-p-before"] })],
    slices: [slice([taint()])],
    leaves: undefined,
  },
  {
    name: "evict-wrong-resourceclaim-replaced: the claim that replaced it is reserved for the pod",
    claims: [{ ...claim(), metadata: meta("c", { uid: "uid-c-2" }) } as ResourceClaim],
    slices: [slice([taint()])],
    leaves: 0,
  },
  { name: "untainted-claim", slices: [slice([])], leaves: undefined },
  { name: "tainted-claim-through-resourceslice", slices: [slice([taint()])], leaves: 0 },
  { name: "tainted-claim-through-rule", slices: [slice([])], rules: [rule({ driver: "d" })], leaves: 0 },
  { name: "evict-pod-rule, whose device's slice is deleted", rules: [rule({ pool: "pool" })], leaves: 0 },
  { name: "a rule without a selector selects nothing", rules: [rule(undefined)], leaves: undefined },
  { name: "a rule with an empty selector selects everything", rules: [rule({})], leaves: 0 },
  {
    name: "evict-pod-later",
    claims: [claim({ tolerations: [tolerates({ tolerationSeconds: 60 })] })],
    slices: [slice([taint()])],
    leaves: 60,
  },
  {
    name: "evict-pod-rule-later",
    claims: [claim({ tolerations: [tolerates({ tolerationSeconds: 60 })] })],
    rules: [rule({ device: "x" })],
    leaves: 60,
  },
  {
    name: "evict-pod-toleration-mismatch",
    claims: [claim({ tolerations: [tolerates({ operator: "Equal", value: "other" })] })],
    slices: [slice([taint()])],
    leaves: 0,
  },
  {
    name: "no-evict-pod-toleration-forever",
    claims: [claim({ tolerations: [tolerates()] })],
    slices: [slice([taint()])],
    leaves: undefined,
  },
  {
    name: "a toleration of any effect is honoured, as the allocator does",
    claims: [claim({ tolerations: [{ key: "k", operator: "Exists" }] })],
    slices: [slice([taint()])],
    leaves: undefined,
  },
  {
    name: "evict-pod-partial-toleration",
    claims: [claim({ tolerations: [tolerates({ operator: "Equal", value: "v" })] })],
    slices: [slice([taint(), taint("NoExecute", "w")])],
    leaves: 0,
  },
  {
    name: "evict-pod-many-taints: the earliest end of a toleration counts",
    claims: [
      claim({
        tolerations: [
          tolerates({ operator: "Equal", value: "v", tolerationSeconds: 90 }),
          tolerates({ operator: "Equal", value: "w", tolerationSeconds: 30 }),
        ],
      }),
    ],
    slices: [slice([taint(), taint("NoExecute", "w")])],
    leaves: 30,
  },
  {
    name: "the shortest of several tolerations",
    claims: [claim({ tolerations: [tolerates({ tolerationSeconds: 90 }), tolerates({ tolerationSeconds: 10 })] })],
    slices: [slice([taint()])],
    leaves: 10,
  },
  {
    name: "negative seconds mean at once",
    claims: [claim({ tolerations: [tolerates({ tolerationSeconds: -5 })] })],
    slices: [slice([taint()])],
    leaves: 0,
  },
  {
    name: "no-evict-pod-not-scheduled",
    pod: pod({ spec: { nodeName: "" } }),
    slices: [slice([taint()])],
    leaves: undefined,
  },
  {
    name: "no-evict-pod that is being deleted",
    pod: pod({ metadata: { deletionTimestamp: "x" } }),
    slices: [slice([taint()])],
    leaves: undefined,
  },
  { name: "no-evict-no-taint", slices: [slice([])], leaves: undefined },
  { name: "no-evict-other-device", slices: [slice([taint()], { device: "y" })], leaves: undefined },
  {
    name: "no-evict-wrong-pod",
    claims: [claim({ users: ["uid-other"] })],
    slices: [slice([taint()])],
    leaves: undefined,
  },
  {
    name: "no-evict-resourceclaim-deallocated",
    claims: [claim({ isAllocated: false })],
    slices: [slice([taint()])],
    leaves: undefined,
  },
  { name: "no-evict-resourceclaim-deleted", claims: [], slices: [slice([taint()])], leaves: undefined },
  { name: "ignore-none-effect", slices: [slice([taint("None")])], leaves: undefined },
  { name: "ignore-unknown-effect", slices: [slice([taint("Whatever")])], leaves: undefined },
  { name: "NoSchedule evicts no pod", slices: [slice([taint("NoSchedule")])], leaves: undefined },
  {
    name: "cancel-eviction-remove-taint-in-new-slice: only the newest generation counts",
    slices: [slice([taint()], { generation: 1 }), slice([], { generation: 2 })],
    leaves: undefined,
  },
  { name: "cancel-eviction-remove-slice", slices: [], leaves: undefined },
  {
    name: "multiple-claims: the earliest decides",
    claims: [
      claim({ tolerations: [tolerates({ tolerationSeconds: 60 })] }),
      { ...claim({ tolerations: [tolerates({ tolerationSeconds: 20 })] }), metadata: meta("d") } as ResourceClaim,
    ],
    slices: [slice([taint()])],
    leaves: 20,
  },
];

test.each(cases)("$name", (each) => {
  const { slices = [], rules = [] } = each;
  const eviction = evictionOfPod(each.pod ?? pod(), each.claims ?? [claim()], {
    slicesOfPool: () => slices,
    rules,
    nowMs,
    ...(each.groupUid !== undefined && { groupUidOf: () => each.groupUid }),
  });
  expect(eviction?.atMs).toBe(each.leaves === undefined ? undefined : at(each.leaves));
});

describe("rule-status: the status of a rule", () => {
  const counts = { pending: 0, evicted: 0, wouldEvict: 0, namespaces: 0 };
  test.each([
    {
      name: "pods have to be evicted",
      effect: "NoExecute",
      counts: { ...counts, pending: 2, namespaces: 1 },
      status: "True",
      reason: "PodsPendingEviction",
    },
    {
      name: "all are evicted",
      effect: "NoExecute",
      counts: { ...counts, evicted: 2 },
      status: "False",
      reason: "Completed",
    },
    { name: "no pod was affected", effect: "NoExecute", counts, status: "False", reason: "NotStarted" },
    {
      name: "a trial",
      effect: "None",
      counts: { ...counts, wouldEvict: 3, namespaces: 2 },
      status: "False",
      reason: "NoEffect",
    },
    { name: "NoSchedule evicts no pod", effect: "NoSchedule", counts, status: "False", reason: "OtherEffect" },
  ])("$name", ({ effect, counts: given, status, reason }) => {
    expect(ruleCondition(rule({}, effect), given, nowMs)).toMatchObject({ type: "EvictionInProgress", status, reason });
  });
});
