import type { KubeObject } from "../../model/objects/object.ts";
import type { ResourceType } from "../builtinResources.ts";
import type { UserInfo, WriteContext } from "../strategy.ts";

/** One write as admission sees it. Objects are in the version of the request. */
export interface AdmissionAttributes {
  readonly operation: "CREATE" | "UPDATE" | "DELETE" | "CONNECT";
  readonly type: ResourceType;
  readonly subresource: string;
  readonly namespace: string;
  readonly name: string;
  readonly object: KubeObject | undefined;
  readonly oldObject: KubeObject | undefined;
  /** CreateOptions, UpdateOptions, PatchOptions or DeleteOptions as sent. */
  readonly options: Readonly<Record<string, unknown>>;
  readonly user: UserInfo;
  readonly dryRun: boolean;
  /** UID of the admission request. */
  readonly requestUid?: string;
  warn(text: string): void;
}

/** Admission that does not belong to one kind: webhooks, policies, quota. */
export interface Admission {
  /**
   * Calls the mutating webhooks. Undefined when none matches, so that a write without webhooks does not leave its turn
   * of the event loop; otherwise the changed object, not yet decoded again. `shown` returns the attributes as webhooks
   * get them: an object that is created has no UID then.
   */
  mutate(attributes: AdmissionAttributes, shown: () => AdmissionAttributes): Promise<KubeObject> | undefined;
  /** Evaluates policies and calls validating webhooks; rejects with a StatusError. Undefined when none matches. */
  validate(attributes: AdmissionAttributes): Promise<void> | undefined;
  /**
   * The last check, in the same turn of the event loop as the commit, so that no other write comes in between: quota.
   * Throws a StatusError.
   */
  commit(attributes: AdmissionAttributes, context: WriteContext): void;
  /** Closes the connections to webhooks. */
  stop?(): void;
}

/** Admits everything. */
export const noAdmission: Admission = {
  mutate: () => undefined,
  validate: () => undefined,
  commit: () => {},
};
