import type { KubeObject } from "../model/objects/object.ts";
import type { ResourceType } from "./resources.ts";
import type { UserInfo, WriteContext } from "./strategy.ts";

/** One write, as admission sees it; objects are in the version of the request. */
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
  /** Tells one request from another. */
  readonly requestUid?: string;
  warn(text: string): void;
}

/** Rules that are not the kind's own: webhooks, policies, quota. */
export interface Admission {
  /**
   * Asks the mutating webhooks. Undefined when none matches, so that the common write never leaves its turn of the
   * event loop; otherwise the changed object, not yet decoded again.
   */
  mutate(attributes: AdmissionAttributes): Promise<KubeObject> | undefined;
  /** Asks policies and validating webhooks; rejects with a StatusError. Undefined when none matches. */
  validate(attributes: AdmissionAttributes): Promise<void> | undefined;
  /** The last check, in the same turn as the commit: quota and whatever must not be overtaken. Throws a StatusError. */
  commit(attributes: AdmissionAttributes, context: WriteContext): void;
  /** Lets go of connections. */
  stop?(): void;
}

/** Admits everything. */
export const noAdmission: Admission = {
  mutate: () => undefined,
  validate: () => undefined,
  commit: () => {},
};
