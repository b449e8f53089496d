/** Classic bugs of a verifier: seeds must find each of them. */
import { succeeded } from "../../model/outcome.ts";
import type { Mistake } from "../mistake.ts";

export const verifyMistakes: readonly Mistake[] = [
  {
    // A new pod is excused by its age alone, even if a scheduler has tried it.
    name: "excuses-by-age",
    invariant: "I18",
    kube: ({ kube }) => ({
      list: async (kind, options) => {
        const outcome = await kube.list(kind, options);
        if (!outcome.ok || (kind.plural !== "pods" && kind.plural !== "events")) return outcome;
        const items =
          kind.plural === "events"
            ? []
            : outcome.value.items.map((pod) => ({ ...pod, status: { ...(pod["status"] as object), conditions: [] } }));
        return succeeded({ ...outcome.value, items });
      },
    }),
  },
];
