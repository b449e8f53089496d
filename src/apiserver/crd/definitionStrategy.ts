import type { CustomResourceDefinition } from "../../model/kubernetes.generated.ts";
import { timeToMs } from "../../model/values/time.ts";
import type { Strategy } from "../strategy.ts";
import { cleanupFinalizer, terminatingCondition } from "./crdNames.ts";
import { crdStrategy } from "./validateCrd.ts";

/** A deleted definition stays until its instances are gone; it is Terminating from the start of the deletion. */
export const definitionStrategy: Strategy = {
  ...crdStrategy,
  requiresRevision: true,
  beginDeletion(object) {
    const crd = object as CustomResourceDefinition;
    const { metadata } = object;
    const finalizers = metadata.finalizers ?? [];
    if (!finalizers.includes(cleanupFinalizer)) metadata.finalizers = [...finalizers, cleanupFinalizer];
    delete metadata.deletionGracePeriodSeconds;
    const nowMs = timeToMs(metadata.deletionTimestamp) ?? 0;
    const phase = { done: false, message: "CustomResource deletion is in progress" };
    crd.status = terminatingCondition(crd.status ?? {}, phase, nowMs);
  },
};
