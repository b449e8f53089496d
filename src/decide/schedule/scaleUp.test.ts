import { describe, expect, test } from "vitest";
import { type PodFields, pod } from "../../../testing/decide/scheduleCluster.ts";
import { partly } from "../../../testing/partly.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import { coolDownMs, planScaleUp, type ScaleUpFacts, type ScaleUpPlan } from "./scaleUp.ts";

const unschedulable = { conditions: [{ type: "PodScheduled", status: "False", reason: "Unschedulable" }] } as never;
const share = (name: string, words: PodFields = { fraction: "0.5" }): Pod =>
  pod(name, { status: unschedulable, ...words });
const plan = (pods: readonly Pod[], more: Partial<ScaleUpFacts> = {}): ScaleUpPlan =>
  planScaleUp({ pods, wouldHelp: () => true, nowMs: 1_000_000, lastMs: undefined, ...more });
const namesOf = ({ create }: ScaleUpPlan): string[] => create.map(({ metadata }) => metadata.name);
const made = (source: Pod): Pod => {
  const [object] = plan([source]).create;
  const { metadata } = object as unknown as Pod;
  return partly<Pod>({ ...object, metadata: { ...metadata, uid: `stand-in-${metadata.name}` } });
};

describe("stand-ins for shares that wait for a machine", () => {
  test("half a GPU needs a whole one, with what else the pod asks for", () => {
    const source = share("p", {
      fraction: "0.5",
      cpu: "2",
      memory: "4Gi",
      spec: {
        nodeSelector: { pool: "gpu" },
        tolerations: [{ key: "gpu", operator: "Exists" }],
        affinity: { nodeAffinity: {} },
      } as never,
    });
    expect(plan([source]).create).toMatchObject([
      {
        metadata: {
          name: "default-p",
          namespace: "kai-scale-adjust",
          labels: { "shared-gpu-pod-name": "p", "shared-gpu-pod-namespace": "default" },
        },
        spec: {
          nodeSelector: { pool: "gpu" },
          tolerations: [{ key: "gpu" }],
          affinity: { nodeAffinity: {} },
          containers: [
            {
              resources: {
                requests: { cpu: "2", memory: "4Gi", "nvidia.com/gpu": "1" },
                limits: { "nvidia.com/gpu": "1" },
              },
            },
          ],
        },
      },
    ]);
  });

  test.each([
    ["two halves need one", ["0.5", "0.5"], 1],
    ["three halves need two", ["0.5", "0.5", "0.5"], 2],
    ["parts are rounded to hundredths", ["0.334", "0.334", "0.334"], 1],
  ])("%s", (_, fractions, count) => {
    const pods = fractions.map((fraction, at) => share(`p${at}`, { fraction }));
    expect(plan(pods).create).toHaveLength(count);
  });

  test("a share by memory counts for a tenth", () => {
    const pods = Array.from({ length: 10 }, (_, at) => share(`p${at}`, { gpuMemory: "1000" }));
    expect(plan(pods).create).toHaveLength(1);
    expect(plan([...pods, share("one-more", { gpuMemory: "1000" })]).create).toHaveLength(2);
  });

  test("shares of several GPUs need a machine that has as many", () => {
    const wide = share("wide", { fraction: "0.1", devices: 4 });
    expect(plan([wide, share("narrow", { fraction: "0.1" })]).create).toMatchObject([
      { spec: { containers: [{ resources: { limits: { "nvidia.com/gpu": "1" } } }] } },
      { spec: { containers: [{ resources: { limits: { "nvidia.com/gpu": "4" } } }] } },
    ]);
  });

  test.each([
    ["has a node", share("p", { fraction: "0.5", on: "n1" })],
    ["waits for nothing yet", pod("p", { fraction: "0.5" })],
    ["asks for whole GPUs", share("p", { gpus: 1 })],
    ["is another scheduler's", share("p", { fraction: "0.5", scheduler: "volcano" })],
    ["is going", share("p", { fraction: "0.5", deletedMs: 1 })],
    ["has ended", share("p", { fraction: "0.5", phase: "Succeeded" })],
  ])("nobody stands in for a pod that %s", (_, source) => {
    expect(plan([source]).create).toEqual([]);
  });

  test("a pod that no machine would help gets no stand-in", () => {
    expect(plan([share("p")], { wouldHelp: () => false }).create).toEqual([]);
  });

  test("one that is there already is enough", () => {
    const source = share("p");
    expect(plan([source, made(source)])).toMatchObject({ create: [], remove: [] });
  });

  test("a placeholder is deleted when its node exists, when it has ended, and when its pod is no longer pending", () => {
    const source = share("p");
    const standIn = made(source);
    const placed = { ...standIn, spec: { ...standIn.spec, nodeName: "new" } } as Pod;
    expect(plan([source, placed]).remove.map(({ why }) => why)).toEqual(["its node exists"]);
    const ended = { ...standIn, status: { phase: "Succeeded" } } as Pod;
    expect(plan([source, ended]).remove.map(({ why }) => why)).toEqual(["it has ended"]);
    expect(plan([standIn]).remove.map(({ why }) => why)).toEqual([
      "the pod that it was created for is no longer pending",
    ]);
  });

  test("the next is made a minute after the last, and comes by itself", () => {
    const facts = { nowMs: 1_000_000, lastMs: 999_000 };
    expect(plan([share("p")], facts)).toMatchObject({ create: [], wakeMs: 999_000 + coolDownMs });
    expect(namesOf(plan([share("p")], { ...facts, nowMs: 999_000 + coolDownMs }))).toEqual(["default-p"]);
  });
});
