/** Classic bugs of a binder: seeds must find each of them. */
import { succeeded } from "../../model/outcome.ts";
import type { Mistake } from "../mistake.ts";

export const bindMistakes: readonly Mistake[] = [
  {
    // The UID is the same, but a pod relies on the object by now.
    name: "deletes-by-uid",
    invariant: "I13",
    kube: ({ kube }) => ({
      delete: (ref, options) => {
        const { uid = "" } = options?.preconditions ?? {};
        return kube.delete(ref, { ...options, preconditions: { uid } });
      },
    }),
  },
  {
    // A bind that failed or got no response is treated as a success.
    name: "takes-silence-for-success",
    invariant: "I11",
    kube: ({ kube }) => ({
      bind: async (ref, target, options) => {
        await kube.bind(ref, target, options);
        return succeeded(undefined);
      },
    }),
  },
];
