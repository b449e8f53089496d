import { describe, expect, test } from "vitest";
import { clusterWith, gang, node } from "../../../../testing/decide/scheduleCluster.ts";
import type { Pod } from "../../../model/kubernetes.generated.ts";
import { leanPod } from "./leanPod.ts";

const bulk = "x".repeat(1000);
const full = (more: object = {}, status: object = {}): Pod => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: {
    name: "p",
    namespace: "default",
    uid: "u",
    resourceVersion: "7",
    creationTimestamp: "2026-01-01T00:00:00Z",
    ownerReferences: [{ apiVersion: "batch/v1", kind: "Job", name: "j", uid: "uj" }],
    finalizers: ["batch.kubernetes.io/job-tracking"],
    labels: { "kai.scheduler/subgroup-name": "workers" },
    annotations: { "pod-group-name": "g", "kubectl.kubernetes.io/last-applied-configuration": bulk },
    managedFields: [{ manager: bulk }],
  },
  spec: {
    schedulerName: "kai-scheduler",
    nodeName: "n1",
    priorityClassName: "train",
    nodeSelector: { zone: "a" },
    resourceClaims: [{ name: "gpu", resourceClaimName: "c" }],
    volumes: [
      { name: "v", persistentVolumeClaim: { claimName: "data" } },
      { name: "m", configMap: { name: "mounted" } },
    ],
    initContainers: [{ name: "i", image: bulk, args: ["--wait"], restartPolicy: "Always" }],
    containers: [
      {
        name: "c",
        image: bulk,
        command: [bulk],
        args: [bulk],
        ports: [{ containerPort: 80, hostPort: 80 }],
        resources: { requests: { cpu: "1" }, limits: { "nvidia.com/gpu": "1" } },
        env: [
          { name: "PLAIN", value: bulk },
          { name: "FROM", valueFrom: { configMapKeyRef: { name: "keyed", key: "k" } } },
          { name: "AZUREML_NODE_COUNT", value: "4" },
        ],
        envFrom: [{ configMapRef: { name: "whole" } }],
        volumeMounts: [{ name: "v", mountPath: bulk }],
        livenessProbe: { exec: { command: [bulk] } },
      },
    ],
    ...more,
  },
  status: { phase: "Running", ...status },
});

describe("of a pod that is kept in memory", () => {
  test("values of variables, commands, mounts, probes and managedFields are left out", () => {
    const text = JSON.stringify(leanPod(full()));
    expect(text).not.toContain(bulk);
    expect(text.length).toBeLessThan(1500);
  });

  test("the ConfigMaps that it names, its ports, its volumes and what it asks for are there", () => {
    const lean = leanPod(full());
    expect(lean.spec?.containers).toEqual([
      {
        name: "c",
        ports: [{ containerPort: 80, hostPort: 80 }],
        resources: { requests: { cpu: "1" }, limits: { "nvidia.com/gpu": "1" } },
        env: [
          { name: "FROM", valueFrom: { configMapKeyRef: { name: "keyed", key: "k" } } },
          { name: "AZUREML_NODE_COUNT", value: "4" },
        ],
        envFrom: [{ configMapRef: { name: "whole" } }],
      },
    ]);
    expect(lean.spec?.initContainers).toEqual([{ name: "i", args: ["--wait"], restartPolicy: "Always" }]);
    expect(lean.spec).toMatchObject({ volumes: full().spec?.volumes, nodeSelector: { zone: "a" } });
  });

  test("the shape is that of the whole pod, so the same is decided", () => {
    const shapeOf = (pod: Pod) => {
      const cluster = clusterWith({ nodes: [node("n1")], ...gang("g", 1), pods: [pod] });
      const { where, ...shape } = cluster.tasks.get("u")!.shape;
      return { ...shape, where: where.key };
    };
    const shape = shapeOf(full());
    expect(shape.configMaps).toEqual(["keyed", "mounted", "whole"]);
    expect(shapeOf(leanPod(full()))).toEqual(shape);
  });

  test.each(["Succeeded", "Failed"])(
    "that has %s only who it was, where it belonged and what it claimed is there",
    (phase) => {
      const lean = leanPod(full({}, { phase }));
      expect(lean).toEqual({
        apiVersion: "v1",
        kind: "Pod",
        metadata: {
          name: "p",
          namespace: "default",
          uid: "u",
          resourceVersion: "7",
          creationTimestamp: "2026-01-01T00:00:00Z",
          ownerReferences: [{ apiVersion: "batch/v1", kind: "Job", name: "j", uid: "uj" }],
          finalizers: ["batch.kubernetes.io/job-tracking"],
          labels: { "kai.scheduler/subgroup-name": "workers" },
          annotations: { "pod-group-name": "g" },
        },
        spec: {
          containers: [{ name: "c" }],
          initContainers: [{ name: "i", restartPolicy: "Always" }],
          nodeName: "n1",
          schedulerName: "kai-scheduler",
          resourceClaims: [{ name: "gpu", resourceClaimName: "c" }],
        },
        status: { phase },
      });
    },
  );

  test("that has ended the place in its gang is known", () => {
    const cluster = clusterWith({
      nodes: [node("n1")],
      ...gang("g", 1),
      pods: [leanPod(full({}, { phase: "Succeeded" }))],
    });
    const task = cluster.tasks.get("u");
    expect(task).toMatchObject({ status: "succeeded", holdings: [] });
    expect(task?.job?.id).toBe("default/g");
  });

  test("the object that came from outside is left as it was", () => {
    const before = full();
    const copy = JSON.stringify(before);
    leanPod(before);
    expect(JSON.stringify(before)).toBe(copy);
  });
});
