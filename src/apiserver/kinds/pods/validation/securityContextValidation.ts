import type {
  AppArmorProfile,
  PodSpec,
  SeccompProfile,
  SecurityContext,
} from "../../../../model/kubernetes.generated.ts";
import {
  duplicate,
  type FieldError,
  forbidden,
  invalid,
  notSupported,
  required,
} from "../../../../model/objects/fieldError.ts";
import { checkOneOf, checkRange } from "../../checks/fieldChecks.ts";
import { checkDnsSubdomain } from "../../checks/nameChecks.ts";
import { repeats } from "../../checks/repeats.ts";
import { checkDescendingPath } from "./volumeMountValidation.ts";

const idMax = 2 ** 31 - 1;
const sysctlName = /^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$/;

export function checkContainerSecurity(context: SecurityContext, path: string, errors: FieldError[]): void {
  if (context.privileged === true && context.allowPrivilegeEscalation === false) {
    errors.push(invalid(path, context, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"));
  }
  if (context.allowPrivilegeEscalation === false && context.capabilities?.add?.includes("CAP_SYS_ADMIN")) {
    errors.push(
      invalid(path, context, "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"),
    );
  }
  checkRange(context.runAsUser, { min: 0, max: idMax }, `${path}.runAsUser`, errors);
  checkRange(context.runAsGroup, { min: 0, max: idMax }, `${path}.runAsGroup`, errors);
  checkOneOf(context.procMount, ["Default", "Unmasked"], `${path}.procMount`, errors);
  checkSeccomp(context.seccompProfile, `${path}.seccompProfile`, errors);
  checkAppArmor(context.appArmorProfile, `${path}.appArmorProfile`, errors);
  checkWindowsOptions(context.windowsOptions, `${path}.windowsOptions`, errors);
}

/** Names that Windows would reject when the container starts. */
function checkWindowsOptions(options: SecurityContext["windowsOptions"], path: string, errors: FieldError[]): void {
  const { gmsaCredentialSpecName, gmsaCredentialSpec, runAsUserName } = options ?? {};
  if (gmsaCredentialSpecName !== undefined) {
    checkDnsSubdomain(gmsaCredentialSpecName, `${path}.gmsaCredentialSpecName`, errors);
  }
  if (gmsaCredentialSpec === "") {
    errors.push(invalid(`${path}.gmsaCredentialSpec`, "", "gmsaCredentialSpec cannot be an empty string"));
  }
  if (runAsUserName === undefined) return;
  const at = `${path}.runAsUserName`;
  const [user = "", domain] = runAsUserName.split("\\").reverse();
  if (runAsUserName === "") errors.push(invalid(at, "", "runAsUserName cannot be an empty string"));
  else if (user.length > 104) {
    errors.push(invalid(at, runAsUserName, "runAsUserName's User length must not be longer than 104 characters"));
  } else if (domain !== undefined && domain.length >= 256) {
    errors.push(invalid(at, runAsUserName, "runAsUserName's Domain length must be under 256 characters"));
  }
}

export function checkPodSecurity(spec: PodSpec, path: string, errors: FieldError[]): void {
  const context = spec.securityContext;
  if (context === undefined) return;
  checkRange(context.fsGroup, { min: 0, max: idMax }, `${path}.fsGroup`, errors);
  checkRange(context.runAsUser, { min: 0, max: idMax }, `${path}.runAsUser`, errors);
  checkRange(context.runAsGroup, { min: 0, max: idMax }, `${path}.runAsGroup`, errors);
  for (const [i, group] of (context.supplementalGroups ?? []).entries()) {
    checkRange(group, { min: 0, max: idMax }, `${path}.supplementalGroups[${i}]`, errors);
  }
  const isRepeated = repeats();
  for (const [i, sysctl] of (context.sysctls ?? []).entries()) {
    const at = `${path}.sysctls[${i}].name`;
    if (!sysctl.name) errors.push(required(at));
    else if (sysctl.name.length > 253 || !sysctlName.test(sysctl.name)) {
      errors.push(invalid(at, sysctl.name, `must have at most 253 characters and match regex ${sysctlName.source}`));
    } else if (isRepeated(sysctl.name)) {
      errors.push(duplicate(at, sysctl.name));
    }
    if (spec.hostNetwork === true && sysctl.name.startsWith("net.")) {
      errors.push(invalid(at, sysctl.name, "may not be specified when 'hostNetwork' is true"));
    }
    if (spec.hostIPC === true && /^(kernel\.(shm|msg|sem)|fs\.mqueue\.)/.test(sysctl.name)) {
      errors.push(invalid(at, sysctl.name, "may not be specified when 'hostIPC' is true"));
    }
  }
  checkOneOf(context.fsGroupChangePolicy, ["Always", "OnRootMismatch"], `${path}.fsGroupChangePolicy`, errors);
  checkOneOf(context.supplementalGroupsPolicy, ["Merge", "Strict"], `${path}.supplementalGroupsPolicy`, errors);
  checkOneOf(context.seLinuxChangePolicy, ["MountOption", "Recursive"], `${path}.seLinuxChangePolicy`, errors);
  checkSeccomp(context.seccompProfile, `${path}.seccompProfile`, errors);
  checkAppArmor(context.appArmorProfile, `${path}.appArmorProfile`, errors);
  checkWindowsOptions(context.windowsOptions, `${path}.windowsOptions`, errors);
}

const profileTypes = ["Localhost", "RuntimeDefault", "Unconfined"];

function checkSeccomp(profile: SeccompProfile | undefined, path: string, errors: FieldError[]): void {
  if (profile === undefined) return;
  if (!profile.type) errors.push(required(`${path}.type`, "type is required when seccompProfile is set"));
  else if (!profileTypes.includes(profile.type)) errors.push(notSupported(`${path}.type`, profile.type, profileTypes));
  if (profile.type === "Localhost") {
    if (!profile.localhostProfile) {
      errors.push(required(`${path}.localhostProfile`, "must be set when seccomp type is Localhost"));
    } else checkDescendingPath(profile.localhostProfile, `${path}.localhostProfile`, errors);
  } else if (profile.localhostProfile !== undefined) {
    errors.push(
      invalid(`${path}.localhostProfile`, profile.localhostProfile, "can only be set when seccomp type is Localhost"),
    );
  }
}

function checkAppArmor(profile: AppArmorProfile | undefined, path: string, errors: FieldError[]): void {
  if (profile === undefined) return;
  if (!profile.type) errors.push(required(`${path}.type`, "type is required when appArmorProfile is set"));
  else if (!profileTypes.includes(profile.type)) errors.push(notSupported(`${path}.type`, profile.type, profileTypes));
  if (profile.type === "Localhost") {
    const local = profile.localhostProfile;
    if (!local) {
      errors.push(required(`${path}.localhostProfile`, "must be set when AppArmor type is Localhost"));
    } else if (local.trim() !== local) {
      errors.push(invalid(`${path}.localhostProfile`, local, "must not be padded with whitespace"));
    }
  } else if (profile.localhostProfile !== undefined) {
    errors.push(forbidden(`${path}.localhostProfile`, "may only be set when AppArmor type is Localhost"));
  }
}
