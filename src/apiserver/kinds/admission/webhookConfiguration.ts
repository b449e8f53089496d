import type {
  AdmissionregistrationWebhookClientConfig,
  MutatingWebhook,
  MutatingWebhookConfiguration,
  ValidatingWebhook,
  ValidatingWebhookConfiguration,
} from "../../../model/kubernetes.generated.ts";
import {
  duplicate,
  type FieldError,
  forbidden,
  invalid,
  notSupported,
  required,
} from "../../../model/objects/fieldError.ts";
import { checkOneOf, checkPortNumber } from "../checks/fieldChecks.ts";
import { checkLabelSelector } from "../checks/labelChecks.ts";
import { checkDnsSubdomain } from "../checks/nameChecks.ts";
import { repeats } from "../checks/repeats.ts";
import { strategyOfKind } from "../kindStrategy.ts";
import { checkMatchConditions, checkRule, setRuleDefaults } from "./admissionRules.ts";
import { ExpressionScope } from "./policyExpressions.ts";

type Webhook = MutatingWebhook | ValidatingWebhook;
const reviewVersions = ["v1", "v1beta1"];

function setWebhookDefaults(webhook: Webhook): void {
  webhook.failurePolicy ??= "Fail";
  webhook.matchPolicy ??= "Equivalent";
  webhook.namespaceSelector ??= {};
  webhook.objectSelector ??= {};
  webhook.timeoutSeconds ??= 10;
  for (const rule of webhook.rules ?? []) setRuleDefaults(rule);
  if (webhook.clientConfig?.service !== undefined) webhook.clientConfig.service.port ??= 443;
}

export const mutatingWebhookStrategy = strategyOfKind<MutatingWebhookConfiguration>({
  generation: "content",
  requiresRevision: true,
  setDefaults(configuration) {
    for (const webhook of configuration.webhooks ?? []) {
      setWebhookDefaults(webhook);
      webhook.reinvocationPolicy ??= "Never";
    }
  },
  validate: (configuration) => configurationErrors(configuration.webhooks),
  validateUpdate: (next) => configurationErrors(next.webhooks),
});

export const validatingWebhookStrategy = strategyOfKind<ValidatingWebhookConfiguration>({
  generation: "content",
  requiresRevision: true,
  setDefaults(configuration) {
    for (const webhook of configuration.webhooks ?? []) setWebhookDefaults(webhook);
  },
  validate: (configuration) => configurationErrors(configuration.webhooks),
  validateUpdate: (next) => configurationErrors(next.webhooks),
});

function configurationErrors(webhooks: readonly Webhook[] | undefined): FieldError[] {
  const errors: FieldError[] = [];
  const list = webhooks ?? [];
  const isRepeated = repeats();
  for (const [i, webhook] of list.entries()) {
    checkWebhook(webhook, `webhooks[${i}]`, errors);
    if (isRepeated(webhook.name)) {
      errors.push(duplicate(`webhooks[${i}].name`, webhook.name));
    }
  }
  return errors;
}

function checkWebhook(webhook: Webhook, path: string, errors: FieldError[]): void {
  if (!webhook.name) errors.push(required(`${path}.name`));
  else {
    checkDnsSubdomain(webhook.name, `${path}.name`, errors);
    if (webhook.name.split(".").length < 3) {
      const detail = "should be a domain with at least three segments separated by dots";
      errors.push(invalid(`${path}.name`, webhook.name, detail));
    }
  }
  const versions = webhook.admissionReviewVersions ?? [];
  const versionsPath = `${path}.admissionReviewVersions`;
  if (versions.length === 0) {
    errors.push(required(versionsPath, `must specify one of ${reviewVersions.join(", ")}`));
  } else if (!versions.some((version) => reviewVersions.includes(version))) {
    const detail = `must include at least one of ${reviewVersions.join(", ")}`;
    errors.push(invalid(versionsPath, versions, detail));
  }
  for (const [i, rule] of (webhook.rules ?? []).entries()) checkRule(rule, `${path}.rules[${i}]`, errors);
  checkOneOf(webhook.failurePolicy, ["Fail", "Ignore"], `${path}.failurePolicy`, errors);
  checkOneOf(webhook.matchPolicy, ["Equivalent", "Exact"], `${path}.matchPolicy`, errors);
  const effects = ["None", "NoneOnDryRun"];
  if (!webhook.sideEffects) errors.push(required(`${path}.sideEffects`, `must specify one of ${effects.join(", ")}`));
  else if (!effects.includes(webhook.sideEffects)) {
    errors.push(notSupported(`${path}.sideEffects`, webhook.sideEffects, effects));
  }
  if ("reinvocationPolicy" in webhook) {
    checkOneOf(webhook.reinvocationPolicy, ["IfNeeded", "Never"], `${path}.reinvocationPolicy`, errors);
  }
  const seconds = webhook.timeoutSeconds;
  if (seconds !== undefined && (seconds < 1 || seconds > 30)) {
    errors.push(invalid(`${path}.timeoutSeconds`, seconds, "the timeout value must be between 1 and 30 seconds"));
  }
  checkLabelSelector(webhook.namespaceSelector, `${path}.namespaceSelector`, errors);
  checkLabelSelector(webhook.objectSelector, `${path}.objectSelector`, errors);
  checkClientConfig(webhook.clientConfig, `${path}.clientConfig`, errors);
  checkMatchConditions(webhook.matchConditions, ExpressionScope.ofWebhook(), `${path}.matchConditions`, errors);
}

function checkClientConfig(
  config: AdmissionregistrationWebhookClientConfig | undefined,
  path: string,
  errors: FieldError[],
): void {
  const { url, service } = config ?? {};
  if ((url === undefined) === (service === undefined)) {
    errors.push(required(path, "exactly one of url or service is required"));
    return;
  }
  if (url !== undefined) checkUrl(url, `${path}.url`, errors);
  if (service !== undefined) {
    if (!service.name) errors.push(required(`${path}.service.name`, "service name is required"));
    if (!service.namespace) errors.push(required(`${path}.service.namespace`, "service namespace is required"));
    checkPortNumber(service.port, `${path}.service.port`, errors);
    if (service.path !== undefined && service.path !== "" && !service.path.startsWith("/")) {
      errors.push(invalid(`${path}.service.path`, service.path, "must start with a '/'"));
    }
  }
}

function checkUrl(text: string, path: string, errors: FieldError[]): void {
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    const detail = "url must be a valid URL: desired format: https://host[/path]";
    errors.push(required(path, detail));
    return;
  }
  if (url.protocol !== "https:") {
    errors.push(
      invalid(
        path,
        url.protocol.slice(0, -1),
        "'https' is the only allowed URL scheme; desired format: https://host[/path]",
      ),
    );
  }
  if (url.host === "")
    errors.push(invalid(path, url.host, "host must be specified; desired format: https://host[/path]"));
  if (url.username !== "") errors.push(forbidden(path, "user information is not permitted in the URL"));
  if (url.hash !== "") errors.push(forbidden(path, "fragments are not permitted in the URL"));
  if (url.search !== "") errors.push(forbidden(path, "query parameters are not permitted in the URL"));
}
