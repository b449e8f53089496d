/** Times are printed, and nothing fails by them: how fast a machine is says nothing about what is right. */
export function say(what: string, times: readonly number[], limitMs?: number): void {
  const sorted = [...times].sort((one, other) => one - other).map((ms) => (ms / 1000).toFixed(1));
  const late = limitMs === undefined ? "" : `; ${times.filter((ms) => ms > limitMs).length} over ${limitMs / 1000} s`;
  print(`${what}: ${sorted.join(" ")} s (${times.length} rounds${late})`);
}

export function print(line: string): void {
  process.stdout.write(`  ${line}\n`);
}
