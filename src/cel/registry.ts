import type { CelFunction } from "./functions.ts";
import { authorizationLibrary } from "./library/authorization.ts";
import { kubernetesLibrary } from "./library/kubernetes.ts";
import { listLibrary } from "./library/lists.ts";
import { optionalLibrary } from "./library/optionals.ts";
import { standardLibrary } from "./library/standard.ts";
import { stringLibrary } from "./library/strings.ts";

/** All functions, by name. Overloads with different implementations are listed side by side. */
const members = new Map<string, CelFunction[]>();
const globals = new Map<string, CelFunction[]>();

for (const library of [
  standardLibrary,
  stringLibrary,
  listLibrary,
  optionalLibrary,
  kubernetesLibrary,
  authorizationLibrary,
]) {
  for (const each of library) {
    const table = each.member ? members : globals;
    const known = table.get(each.name);
    if (known === undefined) table.set(each.name, [each]);
    else known.push(each);
  }
}

export function memberFunctions(name: string): readonly CelFunction[] | undefined {
  return members.get(name);
}

export function globalFunctions(name: string): readonly CelFunction[] | undefined {
  return globals.get(name);
}
