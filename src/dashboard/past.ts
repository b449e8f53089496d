/** The page at an earlier revision. */
import { effect } from "@preact/signals";
import { type Parts, partNames, type ReadModel } from "../model/window/parts.ts";
import { ApiError, get } from "./api.ts";
import { askedRev } from "./route.ts";
import { forgotten, past } from "./state.ts";

/** The current model is shown until the requested revision has arrived. */
export function followAddress(): void {
  let round = 0;
  effect(() => {
    const rev = askedRev.value;
    const own = ++round;
    if (rev === undefined) {
      past.value = undefined;
      forgotten.value = undefined;
      return;
    }
    void readAt(rev).then(
      (model) => {
        if (own !== round) return;
        forgotten.value = undefined;
        past.value = model;
      },
      (error: unknown) => {
        if (own !== round || !(error instanceof ApiError) || error.oldest === undefined) return;
        past.value = undefined;
        forgotten.value = { rev, oldest: error.oldest };
      },
    );
  });
}

async function readAt(rev: number): Promise<ReadModel> {
  const read = await Promise.all(partNames.map((part) => get<{ rev: number; at: string }>(`${part}?rev=${rev}`)));
  const parts: Partial<Parts> = Object.fromEntries(partNames.map((part, at) => [part, read[at]]));
  const { rev: found = rev, at = "" } = read[0] ?? {};
  return { rev: found, at, ...(parts as Parts) };
}
