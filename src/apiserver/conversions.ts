import type { Conversion } from "./builtinResource.ts";

/** Versions that are served but not stored, by `group/version/plural`. */
export const conversions: Readonly<Record<string, Conversion>> = {};
