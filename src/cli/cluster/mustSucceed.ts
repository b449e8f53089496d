import type { Outcome, Refusal } from "../../model/outcome.ts";
import { UserError } from "../../model/userError.ts";

/** The value, or an error with what the API server rejected and the cure for its reason. */
export function mustSucceed<T>(outcome: Outcome<T>, what: string): T {
  if (outcome.ok) return outcome.value;
  throw refusedError(outcome, what);
}

export function refusedError(refusal: Refusal, what: string): UserError {
  return new UserError("cluster-refused", `${what}: ${refusal.message} (${refusal.reason})`, cureOf(refusal));
}

function cureOf({ reason, message }: Refusal): string {
  if (message.includes("failed calling webhook")) {
    return "the named webhook does not answer: start the program that serves it, or delete its webhook configuration";
  }
  switch (reason) {
    case "Invalid":
      return "the API server rejected the object as invalid: check that Muster supports the server's version (docs/own-cluster.md); if it does, report the message as a bug";
    case "Forbidden":
      return "grant these credentials the permission in the message (`muster install --print` shows all of them), or change the policy that rejected the write";
    case "Unauthorized":
      return "the API server does not accept these credentials: check that the token or certificate of the kubeconfig has not expired";
    case "Conflict":
    case "AlreadyExists":
      return "another program writes the same objects: check that only one installation of Muster is running, and try again";
    case "NotFound":
      return "check that the kubeconfig points at a Kubernetes API server (`kubectl get --raw /version`)";
    default:
      return "check that the API server is reachable (`kubectl get --raw /readyz`), and try again";
  }
}
