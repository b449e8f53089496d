import type { HTTPIngressPath, Ingress, IngressBackend, IngressClass } from "../../../model/kubernetes.generated.ts";
import { type FieldError, forbidden, invalid, notSupported, required } from "../../../model/objects/fieldError.ts";
import { wildcardSubdomainErrors } from "../../../model/objects/names.ts";
import { parseIp } from "../../../model/values/ipAddress.ts";
import { checkIpAddress } from "../checks/addressChecks.ts";
import { checkImmutable, checkPortNumber } from "../checks/fieldChecks.ts";
import { checkDns1035Label, checkDnsSubdomain, checkPathSegment, checkPortName } from "../checks/nameChecks.ts";
import { strategyOfKind } from "../kindStrategy.ts";

const pathTypes = ["Exact", "ImplementationSpecific", "Prefix"];
const defaultClassAnnotation = "ingressclass.kubernetes.io/is-default-class";
const classAnnotation = "kubernetes.io/ingress.class";

export const ingressStrategy = strategyOfKind<Ingress>({
  generation: "spec",
  prepareForCreate(ingress, context) {
    ingress.spec ??= {};
    const { spec } = ingress;
    if (spec.ingressClassName !== undefined || ingress.metadata.annotations?.[classAnnotation] !== undefined) return;
    const defaults = [...context.list("networking.k8s.io/ingressclasses", "")]
      .filter(({ metadata }) => metadata.annotations?.[defaultClassAnnotation] === "true")
      .sort((a, b) => {
        // The newest default class is used; of equally old ones the first by name.
        const byTime = b.metadata.creationTimestamp.localeCompare(a.metadata.creationTimestamp);
        return byTime !== 0 ? byTime : a.metadata.name.localeCompare(b.metadata.name);
      });
    if (defaults[0] !== undefined) spec.ingressClassName = defaults[0].metadata.name;
  },
  validate(ingress) {
    const errors = ingressErrors(ingress);
    if (ingress.spec?.ingressClassName !== undefined && ingress.metadata.annotations?.[classAnnotation] !== undefined) {
      const annotation = ingress.metadata.annotations[classAnnotation];
      const path = `annotations.${classAnnotation}`;
      errors.push(invalid(path, annotation, "can not be set when the class field is also set"));
    }
    return errors;
  },
  validateUpdate: (next) => ingressErrors(next),
  validateStatusUpdate(next) {
    const errors: FieldError[] = [];
    for (const [i, { ip, hostname }] of (next.status?.loadBalancer?.ingress ?? []).entries()) {
      const path = `status.loadBalancer.ingress[${i}]`;
      if (ip) checkIpAddress(ip, `${path}.ip`, errors);
      if (!hostname) continue;
      if (parseIp(hostname) !== undefined) {
        errors.push(invalid(`${path}.hostname`, hostname, "must be a DNS name, not an IP address"));
      } else checkDnsSubdomain(hostname, `${path}.hostname`, errors);
    }
    return errors;
  },
});

function ingressErrors(ingress: Ingress): FieldError[] {
  const errors: FieldError[] = [];
  const spec = ingress.spec ?? {};
  if ((spec.rules ?? []).length === 0 && spec.defaultBackend === undefined) {
    errors.push(invalid("spec", spec.rules ?? null, "either `defaultBackend` or `rules` must be specified"));
  }
  if (spec.defaultBackend !== undefined) checkBackend(spec.defaultBackend, "spec.defaultBackend", errors);
  for (const [i, rule] of (spec.rules ?? []).entries()) {
    const path = `spec.rules[${i}]`;
    if (rule.host) checkHost(rule.host, `${path}.host`, errors);
    if (rule.http === undefined) continue;
    const paths = rule.http.paths ?? [];
    if (paths.length === 0) errors.push(required(`${path}.http.paths`));
    for (const [j, item] of paths.entries()) checkPath(item, `${path}.http.paths[${j}]`, errors);
  }
  for (const [i, tls] of (spec.tls ?? []).entries()) {
    for (const [j, host] of (tls.hosts ?? []).entries()) checkHost(host, `spec.tls[${i}].hosts[${j}]`, errors, false);
    if (tls.secretName) checkDnsSubdomain(tls.secretName, `spec.tls[${i}].secretName`, errors);
  }
  if (spec.ingressClassName !== undefined) checkDnsSubdomain(spec.ingressClassName, "spec.ingressClassName", errors);
  return errors;
}

function checkHost(host: string, path: string, errors: FieldError[], refusesAddresses = true): void {
  if (refusesAddresses && parseIp(host) !== undefined) {
    errors.push(invalid(path, host, "must be a DNS name, not an IP address"));
  } else if (host.includes("*")) {
    for (const problem of wildcardSubdomainErrors(host)) errors.push(invalid(path, host, problem));
  } else checkDnsSubdomain(host, path, errors);
}

function checkPath(item: HTTPIngressPath, path: string, errors: FieldError[]): void {
  const text = item.path ?? "";
  if (!item.pathType) errors.push(required(`${path}.pathType`, "pathType must be specified"));
  else if (!pathTypes.includes(item.pathType)) errors.push(notSupported(`${path}.pathType`, item.pathType, pathTypes));
  else if (item.pathType === "ImplementationSpecific") {
    if (text !== "" && !text.startsWith("/")) errors.push(invalid(`${path}.path`, text, "must be an absolute path"));
  } else {
    if (!text.startsWith("/")) errors.push(invalid(`${path}.path`, text, "must be an absolute path"));
    for (const bad of ["//", "/./", "/../", "%2f", "%2F"]) {
      if (text.includes(bad)) errors.push(invalid(`${path}.path`, text, `must not contain '${bad}'`));
    }
  }
  checkBackend(item.backend ?? {}, `${path}.backend`, errors);
}

function checkBackend(backend: IngressBackend, path: string, errors: FieldError[]): void {
  const { service, resource } = backend;
  if (service !== undefined && resource !== undefined) {
    errors.push(invalid(path, "", "cannot set both resource and service backends"));
  } else if (service === undefined && resource === undefined) {
    errors.push(required(path, "resource or service backend is required"));
  }
  if (resource !== undefined) {
    if (!resource.kind) errors.push(required(`${path}.resource.kind`));
    if (!resource.name) errors.push(required(`${path}.resource.name`));
  }
  if (service === undefined) return;
  if (!service.name) errors.push(required(`${path}.service.name`));
  else checkDns1035Label(service.name, `${path}.service.name`, errors);
  const { name, number } = service.port ?? {};
  if (name && number) errors.push(invalid(path, "", "cannot set both port name & port number"));
  else if (name) checkPortName(name, `${path}.service.port.name`, errors);
  else if (number) checkPortNumber(number, `${path}.service.port.number`, errors);
  else errors.push(required(path, "port name or number is required"));
}

export const ingressClassStrategy = strategyOfKind<IngressClass>({
  generation: "spec",
  setDefaults(ingressClass) {
    const parameters = ingressClass.spec?.parameters;
    if (parameters !== undefined) parameters.scope ??= "Cluster";
  },
  validate: (ingressClass) => classErrors(ingressClass),
  validateUpdate(next, old) {
    const errors = classErrors(next);
    checkImmutable(next.spec?.controller, old.spec?.controller, "spec.controller", errors);
    return errors;
  },
});

function classErrors(ingressClass: IngressClass): FieldError[] {
  const errors: FieldError[] = [];
  const { controller, parameters } = ingressClass.spec ?? {};
  if (!controller) errors.push(required("spec.controller"));
  else if (controller.length > 250) {
    errors.push({ type: "TooLong", field: "spec.controller", body: "Too long: may not be more than 250 bytes" });
  } else if (!controller.includes("/")) {
    errors.push(invalid("spec.controller", controller, 'must be a domain-prefixed path (such as "acme.io/foo")'));
  }
  if (parameters === undefined) return errors;
  const path = "spec.parameters";
  if (!parameters.kind) errors.push(required(`${path}.kind`, "kind is required"));
  else checkPathSegment(parameters.kind, `${path}.kind`, errors);
  if (!parameters.name) errors.push(required(`${path}.name`, "name is required"));
  else checkPathSegment(parameters.name, `${path}.name`, errors);
  if (parameters.scope === "Cluster") {
    if (parameters.namespace !== undefined) {
      errors.push(forbidden(`${path}.namespace`, "`parameters.scope` is set to 'Cluster'"));
    }
  } else if (parameters.scope === "Namespace") {
    if (!parameters.namespace) {
      errors.push(required(`${path}.namespace`, "`parameters.scope` is set to 'Namespace'"));
    }
  } else errors.push(notSupported(`${path}.scope`, parameters.scope ?? "", ["Cluster", "Namespace"]));
  return errors;
}
