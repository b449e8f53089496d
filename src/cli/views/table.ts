/** The last column is cut to the width. */
export function tableText(rows: readonly (readonly string[])[], width = Number.POSITIVE_INFINITY): string {
  const widths: number[] = [];
  for (const row of rows) for (const [at, cell] of row.entries()) widths[at] = Math.max(widths[at] ?? 0, cell.length);
  const gap = "  ";
  return rows
    .map((row) =>
      row
        .map((cell, at) => cell.padEnd(widths[at] ?? 0))
        .join(gap)
        .trimEnd(),
    )
    .map((line) => (line.length > width ? `${line.slice(0, width - 3)}...` : line))
    .map((line) => `${line}\n`)
    .join("");
}
