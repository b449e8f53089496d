import type { Outcome, Refusal } from "../../model/outcome.ts";
import { UserError } from "../../model/userError.ts";

/** The value, or an error that names what the cluster refused and a cure that fits its reason. */
export function mustSucceed<T>(outcome: Outcome<T>, what: string): T {
  if (outcome.ok) return outcome.value;
  throw new UserError("cluster-refused", `${what}: ${outcome.message} (${outcome.reason})`, cureOf(outcome));
}

function cureOf({ reason, message }: Refusal): string {
  if (message.includes("failed calling webhook")) {
    return "the named webhook does not answer: start the program that serves it, or delete its webhook configuration";
  }
  switch (reason) {
    case "Invalid":
      return "the API server refuses the object itself: see that its version is one that Muster supports (docs/own-cluster.md), and report the message if it is";
    case "Forbidden":
      return "give these credentials the right that the message names (`muster install --print` shows all of them), or change the policy that refused the write";
    case "Unauthorized":
      return "the API server does not know these credentials: see that the token or certificate of the kubeconfig has not expired";
    case "Conflict":
    case "AlreadyExists":
      return "another program writes the same objects: see that only one installation of Muster runs, and start again";
    case "NotFound":
      return "see that the kubeconfig names a Kubernetes API server (`kubectl get --raw /version`)";
    default:
      return "see that the API server answers (`kubectl get --raw /readyz`), and start again";
  }
}
