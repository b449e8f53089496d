import { expect, test } from "vitest";
import { startMs, testNode, testPod } from "../../../testing/kubelet/nodeContext.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import { formatTime } from "../../model/values/time.ts";
import { readFault } from "../node/faults.ts";
import { nodeStateAt } from "../node/nodeState.ts";
import { nextForReservation, reservationDefaults, reservationNames } from "./reservationAgent.ts";

const { sim } = testNode();
const own = sim.devices[2]!.uuid;

function reservation(change: Partial<Pod["metadata"]> = {}, phase = "Running"): Pod {
  const pod = testPod({ name: "gpu-reservation-1", gpus: 1 });
  const annotations = {
    "sim.muster.dev/devices": JSON.stringify({ "resource-reservation": { "nvidia.com/gpu": [own] } }),
  };
  return {
    ...pod,
    metadata: {
      ...pod.metadata,
      namespace: reservationNames.namespace,
      labels: { app: reservationNames.appLabel, "runai-gpu-group": "g" },
      annotations,
      ...change,
    },
    status: {
      phase,
      containerStatuses: [
        {
          name: "resource-reservation",
          image: "",
          imageID: "",
          ready: true,
          restartCount: 0,
          state: { running: { startedAt: formatTime(startMs) } },
        },
      ],
    },
  };
}

/** The writes within a minute, with their times. */
function written(pod: Pod, faults: Record<string, string>[] = [], options = {}): string[] {
  const list = faults.map((given, i) => readFault(given, { nowMs: startMs, id: String(i) }));
  const found: string[] = [];
  let now = pod;
  let nowMs = startMs;
  for (let turns = 0; turns < 50; turns++) {
    const state = nodeStateAt(list, "pool-0", nowMs);
    const next = nextForReservation({
      pod: now,
      sim,
      state,
      faults: list,
      options: { ...reservationDefaults, ...options },
      nowMs,
    });
    for (const write of next.writes) {
      if (write.kind === "delete") return [...found, `${nowMs - startMs} delete`];
      if (write.kind !== "patch") throw new Error("an agent only patches");
      const { annotations } = (write.patch.body as { metadata: { annotations: Record<string, string> } }).metadata;
      for (const [key, value] of Object.entries(annotations)) {
        const what =
          key === reservationNames.device
            ? value === own
              ? "own"
              : sim.devices.some(({ uuid }) => uuid === value)
                ? "another"
                : "unknown"
            : "heartbeat";
        found.push(`${nowMs - startMs} ${what}`);
      }
      now = { ...now, metadata: { ...now.metadata, annotations: { ...now.metadata.annotations, ...annotations } } };
    }
    if (next.wakeAtMs === undefined && next.writes.length === 0) break;
    nowMs = next.wakeAtMs ?? nowMs;
    if (nowMs > startMs + 60_000) break;
  }
  return found;
}

test.each([
  { name: "its own device, a little after it runs", pod: reservation(), faults: [], expected: ["200 own"] },
  { name: "nothing before it runs", pod: reservation({}, "Pending"), faults: [], expected: [] },
  {
    name: "nothing on a pod of another namespace",
    pod: reservation({ namespace: "default" }),
    faults: [],
    expected: [],
  },
  { name: "nothing on a pod without the label", pod: reservation({ labels: {} }), faults: [], expected: [] },
  {
    name: "nothing on a terminating pod",
    pod: reservation({ deletionTimestamp: "2027-01-15T08:00:00Z" }),
    faults: [],
    expected: [],
  },
  {
    name: "nothing over an existing annotation",
    pod: reservation({ annotations: { "run.ai/reserve_for_gpu_index": "0" } }),
    faults: [],
    expected: [],
  },
  { name: "never", pod: reservation(), faults: [{ kind: "reservation-never" }], expected: [] },
  {
    name: "once the fault has ended",
    pod: reservation(),
    faults: [{ kind: "reservation-never", for: "10s" }],
    expected: ["10000 own"],
  },
  { name: "late", pod: reservation(), faults: [{ kind: "reservation-late", delay: "45s" }], expected: ["45000 own"] },
  {
    name: "another pod's device",
    pod: reservation(),
    faults: [{ kind: "reservation-wrong" }],
    expected: ["200 another"],
  },
  {
    name: "a device that does not exist",
    pod: reservation(),
    faults: [{ kind: "reservation-wrong", how: "unknown" }],
    expected: ["200 unknown"],
  },
  {
    name: "and then the pod is deleted",
    pod: reservation(),
    faults: [{ kind: "reservation-lost", delay: "1s" }],
    expected: ["200 own", "1200 delete"],
  },
  {
    name: "for another pod only",
    pod: reservation(),
    faults: [{ kind: "reservation-never", pod: "kai-resource-reservation/other" }],
    expected: ["200 own"],
  },
])("writes $name", ({ pod, faults, expected }) => {
  expect(written(pod, faults as Record<string, string>[])).toEqual(expected);
});

test("heartbeats are written when they are configured", () => {
  expect(written(reservation(), [], { delayMs: 0, heartbeatMs: 100 }).slice(0, 4)).toEqual([
    "0 own",
    "0 heartbeat",
    "100 heartbeat",
    "200 heartbeat",
  ]);
});

test("32 reservations on four nodes name 32 devices", () => {
  const uuids = new Set<string>();
  for (let index = 0; index < 4; index++) {
    const testbed = testNode();
    for (let i = 0; i < 8; i++) testbed.add(testPod({ name: `r${index}-${i}`, gpus: 1 }));
    testbed.run(1000);
    for (const pod of testbed.pods.values())
      uuids.add(`${index}/${pod.metadata.annotations?.["sim.muster.dev/devices"]}`);
  }
  expect(uuids.size).toBe(32);
});
