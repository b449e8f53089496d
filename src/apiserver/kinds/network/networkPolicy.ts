import type { NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort } from "../../../model/kubernetes.generated.ts";
import { type FieldError, forbidden, invalid, required } from "../../../model/objects/fieldError.ts";
import { networkContains, parseCidr } from "../../../model/values/ipAddress.ts";
import { checkCidr } from "../checks/addressChecks.ts";
import { checkOneOf, checkPortNumber } from "../checks/fieldChecks.ts";
import { checkLabelSelector } from "../checks/labelChecks.ts";
import { strategyOfKind } from "../kindStrategy.ts";
import { checkPort } from "../pods/validation/handlerValidation.ts";

export const networkPolicyStrategy = strategyOfKind<NetworkPolicy>({
  generation: "spec",
  setDefaults(policy) {
    const spec = policy.spec;
    if (spec === undefined) return;
    for (const rule of [...(spec.ingress ?? []), ...(spec.egress ?? [])]) {
      for (const port of rule.ports ?? []) port.protocol ??= "TCP";
    }
    // A policy without egress rules does not restrict egress.
    if ((spec.policyTypes ?? []).length === 0) {
      spec.policyTypes = (spec.egress ?? []).length > 0 ? ["Ingress", "Egress"] : ["Ingress"];
    }
  },
  validate: (policy) => policyErrors(policy),
  validateUpdate: (next) => policyErrors(next),
});

function policyErrors(policy: NetworkPolicy): FieldError[] {
  const errors: FieldError[] = [];
  const spec = policy.spec ?? {};
  checkLabelSelector(spec.podSelector, "spec.podSelector", errors);
  for (const [i, rule] of (spec.ingress ?? []).entries()) {
    checkPorts(rule.ports, `spec.ingress[${i}].ports`, errors);
    checkPeers(rule.from, `spec.ingress[${i}].from`, errors);
  }
  for (const [i, rule] of (spec.egress ?? []).entries()) {
    checkPorts(rule.ports, `spec.egress[${i}].ports`, errors);
    checkPeers(rule.to, `spec.egress[${i}].to`, errors);
  }
  const types = spec.policyTypes ?? [];
  if (types.length > 2) errors.push(invalid("spec.policyTypes", types, "may not specify more than two policyTypes"));
  for (const [i, type] of types.entries()) checkOneOf(type, ["Egress", "Ingress"], `spec.policyTypes[${i}]`, errors);
  return errors;
}

function checkPorts(ports: readonly NetworkPolicyPort[] | undefined, path: string, errors: FieldError[]): void {
  for (const [i, { port, endPort, protocol }] of (ports ?? []).entries()) {
    checkOneOf(protocol, ["SCTP", "TCP", "UDP"], `${path}[${i}].protocol`, errors);
    if (port !== undefined) checkPort(port, `${path}[${i}].port`, errors);
    if (endPort === undefined) continue;
    const at = `${path}[${i}].endPort`;
    if (typeof port !== "number") {
      const detail = "may not be specified when `port` is non-numeric";
      errors.push(
        port === undefined
          ? required(`${path}[${i}].port`, "must be specified when `endPort` is specified")
          : invalid(at, endPort, detail),
      );
    } else if (endPort < port) errors.push(invalid(at, endPort, "must be greater than or equal to `port`"));
    checkPortNumber(endPort, at, errors);
  }
}

function checkPeers(peers: readonly NetworkPolicyPeer[] | undefined, path: string, errors: FieldError[]): void {
  for (const [i, peer] of (peers ?? []).entries()) {
    const at = `${path}[${i}]`;
    const { podSelector, namespaceSelector, ipBlock } = peer;
    checkLabelSelector(podSelector, `${at}.podSelector`, errors);
    checkLabelSelector(namespaceSelector, `${at}.namespaceSelector`, errors);
    if (ipBlock !== undefined) {
      if (podSelector !== undefined || namespaceSelector !== undefined) {
        errors.push(forbidden(at, "may not specify both ipBlock and another peer"));
      }
      if (!ipBlock.cidr) errors.push(required(`${at}.ipBlock.cidr`));
      else checkCidr(ipBlock.cidr, `${at}.ipBlock.cidr`, errors);
      checkExceptions(ipBlock.cidr, ipBlock.except, `${at}.ipBlock.except`, errors);
    } else if (podSelector === undefined && namespaceSelector === undefined) {
      errors.push(required(at, "must specify a peer"));
    }
  }
}

function checkExceptions(
  cidr: string,
  except: readonly string[] | undefined,
  path: string,
  errors: FieldError[],
): void {
  const whole = parseCidr(cidr);
  for (const [i, text] of (except ?? []).entries()) {
    if (!checkCidr(text, `${path}[${i}]`, errors)) continue;
    const part = parseCidr(text);
    if (whole === undefined || part === undefined) continue;
    if (!networkContains(whole, part.address) || part.prefixBits <= whole.prefixBits) {
      errors.push(invalid(`${path}[${i}]`, text, `must be a strict subset of \`cidr\``));
    }
  }
}
