import { describe, expect, test } from "vitest";
import { group, request, reserved, userPod } from "../../../testing/decide/bindCluster.ts";
import { isReservationPod } from "../../model/scheduling/keys.ts";
import { type GroupView, judgeGroup, protects, releasedAnnotation } from "./judgeGroup.ts";

const f = userPod({ device: "GPU-1" });
const unbound = userPod({ node: undefined, phase: "Pending" });
const unlabelled = userPod({ node: undefined, phase: "Pending", groups: [] });
const failed = reserved({ phase: "Failed", device: "" });
const active = request();
const going = { ...active, metadata: { ...active.metadata, deletionTimestamp: "2026-01-01T00:00:00Z" } };
const pinned = {
  ...failed,
  metadata: { ...failed.metadata, annotations: { "muster.dev/pin-device": "GPU-1" } },
};

const made = reserved({ node: undefined, phase: "Pending", device: "" });
const asking = {
  ...made,
  metadata: { ...made.metadata, annotations: { ...made.metadata.annotations, "muster.dev/pin-device": "GPU-1" } },
};

const cases: { name: string; view: Partial<GroupView>; verdict: string }[] = [
  {
    name: "a reservation without users and requests is deleted",
    view: { reservations: [reserved()] },
    verdict: "delete",
  },
  {
    name: "a reservation without a node is kept for the bind that created it",
    view: { reservations: [reserved({ node: undefined, phase: "Pending", device: "" })], requests: [request()] },
    verdict: "keep",
  },
  {
    name: "a reservation without a node, users and requests is deleted",
    view: { reservations: [reserved({ node: undefined, phase: "Pending", device: "" })] },
    verdict: "delete",
  },
  {
    name: "a reservation without a node is bound when running pods need it and it requests their device",
    view: { reservations: [asking], users: [f] },
    verdict: "place",
  },
  {
    name: "a reservation without a node that does not request the device of running pods is replaced",
    view: { reservations: [reserved({ node: undefined, phase: "Pending", device: "" })], users: [f], canPin: true },
    verdict: "delete",
  },
  {
    name: "where the node cannot pin a device, the pods are evicted",
    view: { reservations: [reserved({ node: undefined, phase: "Pending", device: "" })], users: [f] },
    verdict: "evict",
  },
  {
    name: "a pod that runs on another device than its group is evicted",
    view: { reservations: [reserved({ device: "GPU-2" })], users: [f] },
    verdict: "evict",
  },
  {
    name: "a holder that runs on the node in another group holds nothing",
    view: {
      reservations: [reserved({ node: undefined, phase: "Pending", device: "", holders: { "uid-f": "team/f" } })],
      holders: [userPod({ groups: ["Z"] })],
    },
    verdict: "drop",
  },
  {
    name: "a pending pod without a reservation stays",
    view: { users: [unbound], requests: [request()] },
    verdict: "keep",
  },
  {
    name: "a running pod keeps the reservation",
    view: { reservations: [reserved()], users: [f] },
    verdict: "keep",
  },
  {
    name: "a pending pod that is being bound keeps the reservation",
    view: { reservations: [reserved()], users: [unbound], requests: [request()] },
    verdict: "keep",
  },
  {
    name: "a pod that succeeded does not keep the reservation",
    view: { reservations: [reserved()], users: [userPod({ phase: "Succeeded" })] },
    verdict: "delete",
  },
  {
    name: "a pod that failed does not keep the reservation",
    view: { reservations: [reserved()], users: [userPod({ phase: "Failed" })] },
    verdict: "delete",
  },
  {
    name: "an active BindRequest keeps the reservation before its pod is observed",
    view: { reservations: [reserved()], requests: [request()] },
    verdict: "keep",
  },
  {
    name: "a succeeded BindRequest does not keep the reservation when its pod is gone",
    view: { reservations: [reserved()], requests: [request({ phase: "Succeeded" })] },
    verdict: "delete",
  },
  {
    name: "a succeeded BindRequest keeps the reservation while its pod is not yet observed with the label",
    view: {
      reservations: [reserved({ holders: { "uid-f": "team/f" } })],
      requests: [request({ phase: "Succeeded" })],
      holders: [unlabelled],
    },
    verdict: "keep",
  },
  {
    name: "a failed BindRequest without retries does not keep the reservation",
    view: { reservations: [reserved()], requests: [request({ phase: "Failed" })] },
    verdict: "delete",
  },
  {
    name: "a failed BindRequest with its retries exhausted does not keep the reservation",
    view: { reservations: [reserved()], requests: [request({ phase: "Failed", attempts: 4, limit: 3 })] },
    verdict: "delete",
  },
  {
    name: "a BindRequest of another group does not keep the reservation",
    view: { reservations: [reserved()], requests: [request({ groups: ["Z"] })] },
    verdict: "delete",
  },
  {
    name: "a BindRequest of this group beside one of another keeps the reservation",
    view: { reservations: [reserved()], requests: [request({ groups: ["Z"], name: "z" }), request()] },
    verdict: "keep",
  },
  {
    name: "a failed BindRequest with retries left keeps the reservation",
    view: { reservations: [reserved()], requests: [request({ phase: "Failed", attempts: 3, limit: 3 })] },
    verdict: "keep",
  },
  {
    name: "a BindRequest of another type that lists groups does not",
    view: { reservations: [reserved()], requests: [request({ type: "Regular" })] },
    verdict: "delete",
  },
  {
    name: "a BindRequest that is being deleted does not",
    view: { reservations: [reserved()], requests: [going] },
    verdict: "delete",
  },
  {
    name: "a pod whose BindRequest is being deleted is released",
    view: { reservations: [reserved()], users: [unbound], requests: [going] },
    verdict: "release",
  },
  {
    name: "a terminating pod keeps the reservation until it is gone",
    view: { reservations: [reserved()], users: [userPod({ isGoing: true })] },
    verdict: "keep",
  },
  {
    name: "a pod of a lost node keeps the reservation",
    view: { reservations: [reserved()], users: [userPod({ phase: "Unknown" })] },
    verdict: "keep",
  },
  {
    name: "a reservation that the node refused is removed, also under a pending pod",
    view: { reservations: [reserved({ phase: "Failed" })], users: [unbound], requests: [request()] },
    verdict: "delete",
  },
  {
    name: "a pod that holds it and is not labelled yet keeps it while it is being bound",
    view: {
      reservations: [reserved({ holders: { "uid-f": "team/f" } })],
      holders: [unlabelled],
      requests: [request()],
    },
    verdict: "keep",
  },
  {
    name: "a holder without a BindRequest is released by a write first",
    view: { reservations: [reserved({ holders: { "uid-f": "team/f" } })], holders: [unlabelled] },
    verdict: "release",
  },
  {
    name: "and only then removed from the holders",
    view: {
      reservations: [reserved({ holders: { "uid-f": "team/f" } })],
      holders: [userPod({ node: undefined, phase: "Pending", groups: [], annotations: { [releasedAnnotation]: "X" } })],
    },
    verdict: "drop",
  },
  {
    name: "a holder that is deleted is removed before the reservation may be deleted",
    view: { reservations: [reserved({ holders: { "uid-f": "team/f" } })] },
    verdict: "drop",
  },
  {
    name: "a labelled pod that is not bound and has no BindRequest is released",
    view: { reservations: [reserved()], users: [unbound] },
    verdict: "release",
  },
  {
    name: "a pod of the group on another node does not keep it",
    view: { reservations: [reserved()], users: [userPod({ node: "n2" })] },
    verdict: "delete",
  },
  {
    name: "a lost reservation is created again on the same device where the node can pin it",
    view: { users: [f], canPin: true },
    verdict: "restore",
  },
  {
    name: "where the node cannot pin, the pods of a lost reservation are evicted",
    view: { users: [f] },
    verdict: "evict",
  },
  {
    name: "a reservation that asked for the lost device and was refused has its pods evicted",
    view: { reservations: [pinned], users: [f], canPin: true },
    verdict: "evict",
  },
  {
    name: "a refused reservation stays for a moment, as a back-off",
    view: { reservations: [pinned], users: [f], canPin: true, refusal: { forMs: 0, ageMs: 0 } },
    verdict: "keep",
  },
  {
    name: "after the back-off it is deleted and its pods stay: the node may not have released the device yet",
    view: { reservations: [pinned], users: [f], canPin: true, refusal: { forMs: 19_999, ageMs: 1_000 } },
    verdict: "delete",
  },
  {
    name: "after twenty seconds another pod must have the device",
    view: { reservations: [pinned], users: [f], canPin: true, refusal: { forMs: 20_000, ageMs: 1_000 } },
    verdict: "evict",
  },
  {
    name: "a refused reservation is deleted when its pods are terminating",
    view: { reservations: [pinned], users: [userPod({ isGoing: true })], canPin: true },
    verdict: "delete",
  },
  {
    name: "two pods that recorded different devices cannot both keep theirs",
    view: { users: [f, userPod({ name: "g", device: "GPU-2" })], canPin: true },
    verdict: "evict",
  },
  {
    name: "a terminating reservation is waited for",
    view: { reservations: [reserved({ isGoing: true })], users: [f] },
    verdict: "keep",
  },
  { name: "without reservations and pods there is nothing to do", view: {}, verdict: "keep" },
];

describe("a BindRequest that has succeeded protects its group", () => {
  const succeeded = request({ phase: "Succeeded" });

  test.each([
    ["while its pod exists and is not observed with the label", { users: [], holders: [unlabelled] }, true],
    ["no longer once the label is observed: then the pod does", { users: [unbound], holders: [unbound] }, false],
    ["no longer when its pod is deleted", { users: [], holders: [] }, false],
    [
      "not for another pod of the same name",
      { users: [], holders: [{ ...unlabelled, metadata: { ...unlabelled.metadata, uid: "other" } }] },
      false,
    ],
    ["no longer when its pod has finished", { users: [], holders: [userPod({ phase: "Failed", groups: [] })] }, false],
  ])("%s", (_, { users, holders }, expected) => {
    expect(protects(succeeded, { group: "X", users, holders })).toBe(expected);
  });
});

describe("a group's reservation", () => {
  test.each(cases)("$name", ({ view, verdict }) => {
    expect(judgeGroup(group(view)).type).toBe(verdict);
  });

  test("of two, the one whose device no pod has recorded is removed", () => {
    const spare = reserved({ name: "r2", device: "GPU-2" });
    const verdict = judgeGroup(group({ reservations: [spare, reserved()], users: [f] }));
    expect(verdict).toMatchObject({ type: "delete", reservation: { metadata: { name: "r2" } } });
  });

  describe("that always has users", () => {
    const holders = Object.fromEntries(Array.from({ length: 33 }, (_, at) => [`uid-gone-${at}`, `team/gone-${at}`]));

    test("removes deleted holders once they are many, and keeps those that use it", () => {
      const reservation = reserved({ holders: { ...holders, "uid-f": "team/f" } });
      const verdict = judgeGroup(group({ reservations: [reservation], users: [f], holders: [f] }));
      expect(verdict).toMatchObject({ type: "drop", uids: Object.keys(holders).sort() });
    });

    test("is not written for a few of them", () => {
      const { "uid-gone-0": _, ...few } = holders;
      const verdict = judgeGroup(group({ reservations: [reserved({ holders: few })], users: [f] }));
      expect(verdict.type).toBe("keep");
    });

    test("keeps a holder whose bind is retried, though its pod was released before", () => {
      const annotations = { [releasedAnnotation]: "X" };
      const again = userPod({ name: "again", node: undefined, phase: "Pending", groups: [], annotations });
      const reservation = reserved({ holders: { ...holders, "uid-again": "team/again" } });
      const view = {
        reservations: [reservation],
        users: [f],
        holders: [again],
        requests: [request({ name: "again" })],
      };
      expect(judgeGroup(group(view))).toMatchObject({ type: "drop", uids: Object.keys(holders).sort() });
    });
  });

  test("the reason names the pod or BindRequest that needs it", () => {
    expect(judgeGroup(group({ reservations: [reserved()], requests: [request()] }))).toEqual({
      type: "keep",
      why: "BindRequest team/f is going to use it",
      request: request(),
    });
  });

  test("a pod of a user in that namespace is no reservation", () => {
    const pod = userPod();
    expect(isReservationPod({ metadata: { ...pod.metadata, namespace: "kai-resource-reservation" } })).toBe(false);
  });
});
