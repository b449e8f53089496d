import type { Sums } from "../../model/window/parts.ts";
import { shown } from "../state.ts";
import { gpus } from "../words.ts";

const terms: readonly {
  key: Exclude<keyof Sums, "total">;
  label: string;
  swatch: string;
  fill: string;
  bar: string;
}[] = [
  { key: "used", label: "in use", swatch: "sw", fill: "var(--ink)", bar: "var(--ink)" },
  { key: "leaving", label: "leaving", swatch: "sw", fill: "var(--warn)", bar: "var(--warn)" },
  { key: "free", label: "free", swatch: "sw hollow", fill: "", bar: "var(--line2)" },
  { key: "freeInShares", label: "free in shares", swatch: "sw half", fill: "", bar: "var(--ink3)" },
  { key: "cordoned", label: "cordoned", swatch: "sw hatched", fill: "", bar: "var(--s3)" },
  { key: "unknown", label: "unknown", swatch: "sw hollow round", fill: "", bar: "var(--s3)" },
  { key: "broken", label: "broken", swatch: "sw", fill: "var(--bad)", bar: "var(--bad)" },
];

/** All GPUs are the sum of what each of them is. */
export function Equation() {
  const sums = shown.value?.wall.sums;
  return (
    <>
      <h1 class="eq" data-sums={sums === undefined ? "" : JSON.stringify(sums)}>
        <span class="big">{gpus(sums?.total)}</span> GPUs <span class="op">=</span>{" "}
        {terms.map(({ key, label, swatch, fill }, at) => (
          <>
            {at > 0 && <span class="op">+</span>}
            <span class="term" data-term={key}>
              <i class={swatch} style={fill === "" ? {} : { background: fill }} aria-hidden="true" />
              <b>{gpus(sums?.[key])}</b>
              {label}
            </span>
          </>
        ))}
      </h1>
      <div class="eqbar" aria-hidden="true">
        {sums !== undefined &&
          sums.total > 0 &&
          terms.map(({ key, bar }) => (
            <i key={key} style={{ width: `${(sums[key] / sums.total) * 100}%`, background: bar }} />
          ))}
      </div>
    </>
  );
}
