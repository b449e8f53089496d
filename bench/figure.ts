/** A measured number with its target and a floor or peer. */
export interface Figure {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  /** The target of the design. */
  readonly target?: { readonly at: "least" | "most"; readonly value: number };
  /** A floor or a peer, measured in the same run: the best possible value, or that of another program. */
  readonly beside?: { readonly name: string; readonly value: number };
}

/** How a figure compares: met, or by what factor it was missed. */
export function verdict({ value, target }: Figure): string {
  if (target === undefined) return "";
  if (value === target.value) return "met";
  const factor = target.at === "least" ? target.value / value : value / target.value;
  return factor <= 1 ? "met" : `missed by ${factor.toFixed(2)}x`;
}

export function figureLine(figure: Figure): string {
  return `${figure.name}: ${show(figure.value)} ${figure.unit} ${verdict(figure)}`.trimEnd();
}

export function figureTable(figures: readonly Figure[]): string {
  const rows = figures.map((figure) => [
    figure.name,
    `${show(figure.value)} ${figure.unit}`,
    figure.target === undefined ? "" : `${figure.target.at === "least" ? ">=" : "<="} ${show(figure.target.value)}`,
    verdict(figure),
    figure.beside === undefined ? "" : `${figure.beside.name}: ${show(figure.beside.value)} (${ratio(figure)})`,
  ]);
  const head = ["figure", "measured", "target", "", "floor or peer in the same run (ratio)"];
  const widths = head.map((title, at) => Math.max(title.length, ...rows.map((row) => (row[at] ?? "").length)));
  return [head, ...rows]
    .map((row) =>
      row
        .map((cell, at) => cell.padEnd(widths[at] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

function ratio({ value, beside }: Figure): string {
  if (beside === undefined || beside.value === 0) return "";
  return `${(value / beside.value).toFixed(2)}x`;
}

function show(value: number): string {
  if (value >= 1000) return Math.round(value).toLocaleString("en-US");
  return value >= 10 ? value.toFixed(0) : value.toFixed(2);
}

/** The value below which the given share of the samples lies. */
export function percentile(samples: readonly number[], share: number): number {
  const sorted = [...samples].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
}
