import { colourText } from "../colours.ts";
import { colours } from "../state.ts";

export function queueColour(queue: string): string {
  return colourText(colours.value.get(queue));
}

/** The colour of a queue beside its name. */
export function Swatch({ queue }: { readonly queue: string }) {
  return <i class="sw" style={{ background: queueColour(queue) }} aria-hidden="true" />;
}
