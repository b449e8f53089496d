/** The suites by name, quick ones first. */
import type { Probe } from "../probe.ts";
import { admission, podSecurity, quota } from "./admission.ts";
import { customResources, definitions } from "./customResources.ts";
import { discovery } from "./discovery.ts";
import { kindFields, podFields, updatedFields } from "./fields.ts";
import { bodies, errors, listOptions } from "./http.ts";
import { kinds } from "./kinds.ts";
import { live } from "./live.ts";
import { minimal } from "./minimal.ts";
import { pages } from "./pages.ts";
import { patches } from "./patches.ts";
import { policies } from "./policies.ts";
import { rights } from "./rights.ts";
import { selectors } from "./selectors.ts";

export const suites: Record<string, (probe: Probe) => Promise<void>> = {
  discovery,
  minimal,
  patches,
  policies,
  errors,
  bodies,
  listOptions,
  pages,
  live,
  rights,
  selectors,
  admission,
  quota,
  podSecurity,
  definitions,
  customResources,
  kinds,
  kindFields,
  podFields,
  updatedFields,
};
