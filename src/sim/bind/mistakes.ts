/** Classic mistakes of a binder: seeds must find each of them. */
import { succeeded } from "../../model/outcome.ts";
import type { Mistake } from "../mistake.ts";

export const bindMistakes: readonly Mistake[] = [
  {
    // It is the same object, and a pod relies on it by now.
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
    // A bind that was refused, or got no answer, is taken for done.
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
