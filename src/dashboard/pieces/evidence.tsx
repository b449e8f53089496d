import { useState } from "preact/hooks";
import type { WhyFindings } from "../../model/window/why.ts";
import { href } from "../route.ts";
import { momentMs, shown } from "../state.ts";
import { bareName, count, gpus, name, plural, shortSpan } from "../words.ts";
import { Swatch } from "./swatch.tsx";

const fills: Readonly<Record<string, string>> = {
  found: "var(--ok)",
  amounts: "var(--ink3)",
  unhealthy: "var(--warn)",
  taint: "var(--q1)",
  selector: "var(--s3)",
  volumes: "var(--q4)",
  pods: "var(--q0)",
  nominated: "var(--q3)",
  domain: "var(--q5)",
  other: "var(--line2)",
};
const namesMax = 4;

/** One box for each pod that has to be placed at once; found ones carry the name of their node. */
export function Places({ why, more }: { readonly why: WhyFindings; readonly more: readonly string[] }) {
  const { needed, found } = why.places;
  const shownMax = 24;
  return (
    <ul class="places" aria-label="places">
      {Array.from({ length: Math.min(needed, shownMax) }, (_, at) => {
        const node = found[at];
        const would = more[at - found.length];
        const text = node ?? would;
        return (
          <li key={at} class={node !== undefined ? "place found" : would !== undefined ? "place would" : "place"}>
            {text === undefined ? "no place" : name(text)}
          </li>
        );
      })}
      {needed > shownMax && <li class="place">{count(needed - shownMax)} more</li>}
    </ul>
  );
}

/** All nodes as a small map in the order of the wall, each with its reason, and the reasons with their counts. */
export function Evidence({ why, more }: { readonly why: WhyFindings; readonly more: readonly string[] }) {
  const [only, show] = useState<string | undefined>(undefined);
  const rows = [
    ...(why.places.found.length > 0
      ? [{ class: "found", text: "places found", nodes: [...new Set(why.places.found)] }]
      : []),
    ...why.evidence,
  ];
  const reasonOf = new Map(rows.flatMap((row) => row.nodes.map((node) => [node, row] as const)));
  const wall = shown.value?.wall;
  const order = [
    ...(wall?.nodes ?? []).map(([node]) => node),
    ...[...reasonOf.keys()].filter((node) => wall?.nodes.every(([each]) => each !== node) !== false),
  ];
  const nodes = order.filter((node) => reasonOf.has(node));
  const across = Math.max(8, Math.ceil(Math.sqrt(nodes.length * 2.6)));
  const [w, h, gap] = [24, 14, 4];
  const down = Math.ceil(nodes.length / across);
  const chosen = new Set(more);
  return (
    <div class="card">
      <svg
        class="minimap"
        viewBox={`0 0 ${across * (w + gap)} ${down * (h + gap)}`}
        role="img"
        aria-label={`${plural(nodes.length, "node")} with their reasons`}
      >
        {nodes.map((node, at) => {
          const row = reasonOf.get(node);
          const isDim = only !== undefined && row?.text !== only;
          const stroke = chosen.has(node) ? "var(--ink)" : row?.class === "selector" ? "var(--line2)" : "none";
          return (
            <rect
              key={node}
              x={(at % across) * (w + gap) + 1}
              y={Math.floor(at / across) * (h + gap) + 1}
              width={w - 2}
              height={h - 2}
              rx="2"
              style={{
                fill: fills[row?.class ?? "other"],
                stroke,
                strokeWidth: chosen.has(node) ? 2 : 1,
                opacity: isDim ? 0.15 : 1,
              }}
            >
              <title>
                {name(node)}: {row?.text}
              </title>
            </rect>
          );
        })}
      </svg>
      <ul class="classes">
        {rows.map(({ class: kind, text, nodes: each }) => (
          <li key={text}>
            <button
              type="button"
              aria-pressed={only === text}
              data-class={kind}
              data-count={each.length}
              onClick={() => show(only === text ? undefined : text)}
            >
              <i
                class="sw"
                style={{
                  background: fills[kind],
                  boxShadow: kind === "selector" ? "inset 0 0 0 1px var(--line2)" : "none",
                  alignSelf: "center",
                }}
                aria-hidden="true"
              />
              <span class="n num">{count(each.length)}</span>
              <span class="text">
                <span>{name(text)}</span>
                <small>
                  {each.length <= namesMax
                    ? each.map(name).join(", ")
                    : `${each.slice(0, namesMax).map(name).join(", ")} ...`}
                </small>
              </span>
            </button>
          </li>
        ))}
      </ul>
    </div>
  );
}

const words = { starts: "starts", waits: "still waits", untried: "not tried" } as const;

export function Cures({
  why,
  cure,
  chosen,
  choose,
}: {
  readonly why: WhyFindings;
  /** What the scheduler said with its reason. */
  readonly cure: string;
  readonly chosen: string;
  readonly choose: (id: string) => void;
}) {
  return (
    <>
      {why.cures.map(({ id, text, verdict, effect }) => (
        <button
          key={id}
          type="button"
          class="cure"
          data-cure={id}
          aria-pressed={chosen === id}
          onClick={() => choose(chosen === id ? "" : id)}
        >
          <span class="what">{name(id === "free" && cure !== "" ? cure : text)}</span>
          <span class={verdict === "starts" ? "chip ok" : "chip"}>{words[verdict]}</span>
          {effect !== "" && <span class="effect">{name(effect)}</span>}
        </button>
      ))}
    </>
  );
}

export function Holders({ why }: { readonly why: WhyFindings }) {
  if (why.holders.length === 0)
    return <p class="sentence">No workload of a queue holds GPUs on nodes that match this pod.</p>;
  return (
    <div class="table-scroll">
      <table>
        <thead>
          <tr>
            <th>Workload</th>
            <th class="num">GPUs</th>
            <th>Since</th>
            <th>May it be evicted for this?</th>
          </tr>
        </thead>
        <tbody>
          {why.holders.map(({ of, queue, gpus: milli, since, evictable, why: text }) => (
            <tr key={of}>
              <td>
                <a class="named" href={href("gangs", of.split("/"))}>
                  <Swatch queue={queue} />
                  <span class="mono">{bareName(of)}</span>
                </a>
              </td>
              <td class="num">{gpus(milli)}</td>
              <td class="dim">{shortSpan(momentMs.value - Date.parse(since))}</td>
              <td class="dim">
                {evictable ? "yes" : "no"}: {name(text)}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
