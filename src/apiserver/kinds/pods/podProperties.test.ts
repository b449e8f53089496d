import fc from "fast-check";
import { expect, test } from "vitest";
import { create, type Draft, update } from "../../../../test/fixtures/kindWrites.ts";
import { strategyFor } from "../strategies.ts";

const amount = (units: string[]) =>
  fc.tuple(fc.integer({ min: 1, max: 4 }), fc.constantFrom(...units)).map(([n, unit]) => `${n}${unit}`);
const resourceList = fc.record({ cpu: amount(["", "00m"]), memory: amount(["Gi", "Mi"]) }, { requiredKeys: [] });
const resources = fc.record({ limits: resourceList, requests: resourceList }, { requiredKeys: [] });
const container = fc.record(
  {
    image: fc.constantFrom("a", "a:1", "a:latest", "r:5000/a", "a@sha256:0", ""),
    resources,
    ports: fc.array(fc.record({ containerPort: fc.constantFrom(80, 81) }), { maxLength: 2 }),
    env: fc.array(fc.record({ name: fc.constantFrom("A", "B") }), { maxLength: 2 }),
    livenessProbe: fc.constantFrom({ tcpSocket: { port: 1 } }, { httpGet: { port: "web" } }, {}),
    volumeMounts: fc.array(fc.record({ name: fc.constantFrom("v", "w"), mountPath: fc.constantFrom("/a", "/b") }), {
      maxLength: 2,
    }),
  },
  { requiredKeys: ["image"] },
);
const spec = fc.record(
  {
    containers: fc
      .array(container, { minLength: 1, maxLength: 3 })
      .map((list) => list.map((c, i) => ({ name: `c${i}`, ...c }))),
    initContainers: fc.array(container, { maxLength: 2 }).map((list) => list.map((c, i) => ({ name: `i${i}`, ...c }))),
    volumes: fc.constantFrom(
      [{ name: "v" }],
      [
        { name: "v", emptyDir: {} },
        { name: "w", configMap: { name: "x" } },
      ],
    ),
    hostNetwork: fc.boolean(),
    restartPolicy: fc.constantFrom("Always", "Never", "OnFailure"),
    terminationGracePeriodSeconds: fc.integer({ min: -1, max: 60 }),
    tolerations: fc.array(
      fc.constantFrom({ operator: "Exists" }, { key: "a", operator: "Exists", effect: "NoExecute" }),
      { maxLength: 2 },
    ),
    schedulingGates: fc.constantFrom([{ name: "g" }]),
    nodeSelector: fc.constantFrom({ a: "b" }),
  },
  { requiredKeys: ["containers"] },
);

const pod = (podSpec: object): Draft => ({ metadata: { name: "p", namespace: "ns" }, spec: podSpec });

test("defaults reach a fixed point at once, whatever the pod", () => {
  fc.assert(
    fc.property(spec, (podSpec) => {
      const { object } = create("/pods", pod(podSpec));
      const before = JSON.stringify(object);
      strategyFor("/pods").setDefaults?.(object);
      expect(JSON.stringify(object)).toBe(before);
    }),
  );
});

test("what is accepted once is accepted unchanged, and by itself again", () => {
  fc.assert(
    fc.property(spec, (podSpec) => {
      const first = create("/pods", pod(podSpec));
      if (first.errors.length > 0) return;
      expect(update("/pods", first.object, () => {}).errors).toEqual([]);
      const again = create("/pods", pod(first.object.spec));
      expect([again.errors, again.object.spec]).toEqual([[], first.object.spec]);
    }),
  );
});

test("the quality of service does not depend on the order of containers", () => {
  fc.assert(
    fc.property(spec, (podSpec) => {
      const turned = { ...podSpec, containers: [...podSpec.containers].reverse() };
      const qos = (draft: object): string => create("/pods", pod(draft)).object.status.qosClass;
      expect(qos(turned)).toBe(qos(podSpec));
    }),
  );
});
