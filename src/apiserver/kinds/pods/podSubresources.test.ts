import { expect, test } from "vitest";
import { create } from "../../../../test/fixtures/kindWrites.ts";
import type { Pod } from "../../../model/kubernetes.generated.ts";
import { describeFieldError } from "../../../model/objects/fieldError.ts";
import { copyJson } from "../../../model/objects/json.ts";
import { prepareEphemeralContainers, validateEphemeralContainers } from "./ephemeralContainers.ts";
import { preparePodResize, validatePodResize } from "./podResize.ts";

// biome-ignore lint/suspicious/noExplicitAny: edits walk into untyped objects.
type Edit = (pod: any) => void;
const stored = (): Pod =>
  create("/pods", {
    metadata: { name: "p", namespace: "ns" },
    spec: {
      containers: [
        { name: "c", image: "i:1", resources: { requests: { cpu: "1", memory: "1Gi" }, limits: { cpu: "2" } } },
      ],
      initContainers: [{ name: "once", image: "i:1" }],
      nodeName: "n",
    },
  }).object;

function resize(edit: Edit): { pod: Pod; errors: string[] } {
  const old = stored();
  const next = copyJson(old);
  edit(next);
  preparePodResize(next, old);
  return { pod: next, errors: validatePodResize(next, old).map(describeFieldError) };
}

test("a resize changes cpu and memory, and drops every other wish", () => {
  const { pod, errors } = resize((p) => {
    p.spec.containers[0].resources.requests.cpu = "1500m";
    p.spec.containers[0].image = "other";
    p.spec.nodeName = "elsewhere";
    p.metadata.labels = { sneaky: "yes" };
  });
  expect(errors).toEqual([]);
  expect(pod.spec?.containers[0]).toMatchObject({ image: "i:1", resources: { requests: { cpu: "1500m" } } });
  expect(pod.spec?.nodeName).toBe("n");
  expect(pod.metadata.labels).toBeUndefined();
});

test.each<[string, Edit, string]>([
  [
    "a GPU",
    (p) => (p.spec.containers[0].resources.limits = { cpu: "2", "nvidia.com/gpu": "1" }),
    "spec: Forbidden: only cpu and memory resources are mutable",
  ],
  [
    "a request taken away",
    (p) => delete p.spec.containers[0].resources.requests.memory,
    "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed",
  ],
  [
    "a limit taken away",
    (p) => (p.spec.containers[0].resources.limits = {}),
    "spec.containers[0].resources.limits: Forbidden: resource limits cannot be removed",
  ],
  [
    "a request above the limit",
    (p) => (p.spec.containers[0].resources.requests.cpu = "3"),
    "spec.containers[0].resources.requests: Invalid value",
  ],
  [
    "another quality of service",
    (p) => (p.spec.containers[0].resources = { requests: { cpu: "0", memory: "0" }, limits: { cpu: "0" } }),
    'spec: Invalid value: "Burstable": Pod QOS Class may not change as a result of resizing',
  ],
  [
    "an ordinary init container",
    (p) => (p.spec.initContainers[0].resources = { requests: { cpu: "1" } }),
    "spec: Forbidden: resources for non-sidecar init containers are immutable",
  ],
  [
    "a container more",
    (p) => p.spec.containers.push({ name: "d", image: "i" }),
    "spec.containers: Forbidden: containers may not be added or removed on resize",
  ],
])("a resize refuses %s", (_name, edit, error) => {
  expect(resize(edit).errors.some((text) => text.startsWith(error))).toBe(true);
});

function debug(old: Pod, edit: Edit): { pod: Pod; errors: string[] } {
  const next = copyJson(old);
  edit(next);
  prepareEphemeralContainers(next, old);
  return { pod: next, errors: validateEphemeralContainers(next, old).map(describeFieldError) };
}
const shell = {
  name: "debug",
  image: "busybox",
  targetContainerName: "c",
  terminationMessagePolicy: "File",
  imagePullPolicy: "Always",
  resources: {},
};

test("ephemeral containers can be added, and nothing else changes", () => {
  const { pod, errors } = debug(stored(), (p) => {
    p.spec.ephemeralContainers = [shell];
    p.spec.containers[0].image = "other";
  });
  expect(errors).toEqual([]);
  expect(pod.spec?.containers[0]?.image).toBe("i:1");
  expect(pod.spec?.ephemeralContainers).toHaveLength(1);
});

test.each<[string, Edit, string]>([
  [
    "removed",
    (p) => delete p.spec.ephemeralContainers,
    'spec.ephemeralContainers: Forbidden: existing ephemeral containers "debug" may not be removed',
  ],
  [
    "changed",
    (p) => (p.spec.ephemeralContainers[0].image = "x"),
    'spec.ephemeralContainers: Forbidden: existing ephemeral containers "debug" may not be changed',
  ],
])("an ephemeral container cannot be %s", (_name, edit, error) => {
  const { pod } = debug(stored(), (p) => (p.spec.ephemeralContainers = [shell]));
  expect(debug(pod, edit).errors.filter((text) => text.startsWith(error))).toHaveLength(1);
});

test.each([
  ["a taken name", { name: "c" }, 'spec.ephemeralContainers[0].name: Duplicate value: "c"'],
  [
    "an unknown target",
    { targetContainerName: "x" },
    'spec.ephemeralContainers[0].targetContainerName: Not found: "x"',
  ],
  [
    "resources",
    { resources: { limits: { cpu: "1" } } },
    "spec.ephemeralContainers[0].resources: Forbidden: cannot be set for an Ephemeral Container",
  ],
  [
    "ports",
    { ports: [{ containerPort: 1, protocol: "TCP" }] },
    "spec.ephemeralContainers[0].ports: Forbidden: cannot be set for an Ephemeral Container",
  ],
])("an ephemeral container may not have %s", (_name, more, error) => {
  expect(debug(stored(), (p) => (p.spec.ephemeralContainers = [{ ...shell, ...more }])).errors).toContain(error);
});
