// Plays the seed counts that were promised, and says what came of them: `npm run sim:long`.
//   the guinea pig 10,000 seeds; seven mutants until found, four of the scheduler and two of the binder; 200 seeds twice, in two processes; every exhibit 1,000 seeds;
//   and what the parts promise, in the table below.
// Numbers may be scaled down for a quick look, and parts left out: `npm run sim:long -- --scale 0.01 --only pig,mutants`.
// The parts are pig, hashes, mutants, parts and races.
import { spawnSync } from "node:child_process";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const program = join(root, "dist/bundle/program/main.js");
const at = process.argv.indexOf("--scale");
const scale = at < 0 ? 1 : Number(process.argv[at + 1]);
const scaled = (count) => String(Math.max(1, Math.round(count * scale)));
const onlyAt = process.argv.indexOf("--only");
const only = onlyAt < 0 ? undefined : process.argv[onlyAt + 1].split(",");
const isWanted = (part) => only === undefined || only.includes(part);
const mistakes = [
  "acts-on-cache-absence",
  "deletes-by-name",
  "no-precondition",
  "counts-up-and-down",
  "forgets-own-writes",
  "keeps-leading",
  "time-out-means-no",
];
let failures = 0;

function muster(args) {
  const { stdout, stderr, status } = spawnSync(process.execPath, [program, ...args, "-o", "json"], {
    encoding: "utf8",
    maxBuffer: 1 << 28,
  });
  if (stdout === "") throw new Error(`muster ${args.join(" ")} said nothing: ${stderr}`);
  return { answer: JSON.parse(stdout), told: stderr, status };
}

function check(name, ok, detail) {
  if (!ok) failures++;
  process.stdout.write(`${ok ? "ok    " : "FAILED"} ${name}: ${detail}\n`);
}

const rate = ({ seedsPerSecond, eventsPerSecond, simulatedOverReal }) =>
  `${seedsPerSecond.toFixed(0)} seeds/s, ${eventsPerSecond.toFixed(0)} events/s, ${simulatedOverReal.toFixed(0)} times real time`;

if (isWanted("pig")) {
  const pig = muster(["sim", "run", "--seeds", scaled(10_000)]);
  const pigDetail = `${pig.answer.seeds} seeds, ${pig.answer.violations.length} violations; ${rate(pig.answer)}`;
  check("the guinea pig under all faults", pig.answer.violations.length === 0, pigDetail);
  if (pig.status !== 0) process.stdout.write(pig.told);
}

if (isWanted("hashes")) {
  const first = muster(["sim", "run", "--seeds", scaled(200)]).answer.hash;
  const second = muster(["sim", "run", "--seeds", scaled(200)]).answer.hash;
  check("the same seeds in two processes", first === second, `${scaled(200)} seeds, ${first} and ${second}`);
}

const medians = [];
for (const mistake of isWanted("mutants") ? mistakes : []) {
  // The distance from one violation to the next is how many seeds a blind search needs.
  const { answer, told } = muster(["sim", "run", "--scenario", `pod-sets/${mistake}`, "--seeds", scaled(1_000)]);
  const seeds = answer.violations.map(({ seed }) => seed);
  const distances = seeds.map((seed, index) => seed - (seeds[index - 1] ?? 0)).sort((a, b) => a - b);
  const median = distances[distances.length >> 1];
  medians.push(median);
  const steps = [...told.matchAll(/shortest history found: (\d+) steps/g)].map(([, count]) => Number(count));
  const invariants = [...new Set(answer.violations.map(({ invariant }) => invariant))].join(", ");
  const ok = seeds.length > 0 && seeds[0] <= 5_000 && Math.min(...steps) <= 25;
  const detail = `first found by seed ${seeds[0]}, median ${median} seeds; shrunk to ${steps.join(", ")} steps; ${invariants}`;
  check(`mutant ${mistake}`, ok, detail);
}
if (isWanted("mutants")) {
  const middle = medians.sort((a, b) => a - b)[medians.length >> 1];
  process.stdout.write(`median over the ${medians.length} mutants: ${middle} seeds\n`);
}

/** Mistakes around scheduler, binder and gang operator: each must break its own invariant within so many seeds. */
const namedMistakes = [
  ["schedule/says-the-time", "I17", 20],
  ["schedule/keeps-requests", "I11", 100],
  ["schedule/drops-bursts", "I19", 200],
  ["schedule/trusts-broken-watches", "I5", 200],
  ["schedule/binds-by-name", "I7", 500],
  ["bind/takes-silence-for-success", "I11", 40],
  ["bind/deletes-by-uid", "I13", 40],
  ["gang/counts-whatever-is-bound", "I4", 50],
  ["gang/waits-for-evictions", "I4", 50],
];
for (const [mistake, breaks, seeds] of isWanted("mutants") ? namedMistakes : []) {
  const { answer } = muster(["sim", "run", "--scenario", mistake, "--seeds", String(seeds)]);
  const own = answer.violations.filter(({ invariant }) => invariant === breaks);
  const detail = `${breaks} broke on ${own.length} of ${seeds} seeds (first ${own[0]?.seed})`;
  check(`mistake ${mistake}`, own.length > 0, detail);
}

/** What the parts promise: scenario, seeds, and what is played. */
const promises = [
  ["inventory", 5_000, "the inventory's race matrix: sessions, renames, faults of cloud and database, two reconcilers"],
  ["bind", 10_000, "shares of GPUs bound, deleted and bound again"],
  ["race/lost-reservation/fixed", 10_000, "a reservation under pods that come and go, as the museum plays it"],
  ["devices", 4_000, "claims on two nodes with three devices each, and two pods too many"],
  ["devices/one-node", 4_000, "claims on one node with two devices"],
  ["devices/shared", 2_000, "claims on two nodes with two devices each, two claims shared by two pods"],
  ["devices/three-nodes", 2_000, "claims on three nodes with eight devices each"],
  ["devices/many", 20, "claims on eight nodes with a hundred devices each"],
  ["gang", 2_500, "gangs on nodes that are lost, full loss suppressed"],
  ["gang/terminate", 2_500, "gangs on nodes that are lost, full loss terminates"],
  ["node-lives", 500, "nodes that fall silent, return and are deleted"],
  ["nodes", 2_000, "simulated nodes that flap, vanish, break and let go slowly, shared by two simulators (I14, I15)"],
  ["schedule", 5_000, "plain pods, gangs and shares of two queues, and two schedulers that quarrel"],
  ["schedule/claims", 2_000, "pods and gangs with claims, placed by both schedulers of one process"],
  ["schedule/extended", 1_000, "pods and gangs that ask for a resource that devices serve"],
  ["schedule/growth", 2_000, "jobs of two queues that begin with one subgroup and grow by another"],
  ["verify", 1_000, "verify while 200 pods are made and bound"],
  ["workloads", 2_000, "Deployments, StatefulSets, DaemonSets and Jobs"],
];
for (const [scenario, seeds, about] of isWanted("parts") ? promises : []) {
  const { answer, told, status } = muster(["sim", "run", "--scenario", scenario, "--seeds", scaled(seeds)]);
  const detail = `${answer.seeds} seeds, ${answer.violations.length} violations; ${rate(answer)}`;
  check(about, answer.violations.length === 0, detail);
  if (status !== 0) process.stdout.write(told);
}

for (const race of isWanted("races") ? muster(["races"]).answer.races : []) {
  for (const { name, failsWithinSeeds, breaks } of race.variants) {
    const seeds = failsWithinSeeds === null ? scaled(1_000) : String(failsWithinSeeds);
    const { answer } = muster(["races", "run", race.name, "--variant", name, "--seeds", seeds]);
    const { violations, schedule } = answer;
    // That another invariant broke than the variant's own shows another mistake than the exhibit's.
    const own = violations.filter(({ invariant }) => invariant === breaks);
    const onSchedule = schedule.filter((invariant) => invariant !== null && invariant === breaks).length;
    const isClean = violations.length === 0 && schedule.every((invariant) => invariant === null);
    const ok = breaks === null ? isClean : own.length > 0 && onSchedule === schedule.length;
    const others = [...new Set(violations.map(({ invariant }) => invariant))].filter((each) => each !== breaks);
    const detail =
      breaks === null
        ? `${violations.length} violations on ${seeds} seeds and ${schedule.length} schedules`
        : `${breaks} broke on ${own.length} of ${seeds} seeds (first ${own[0]?.seed}), ${onSchedule} of ${schedule.length} schedules`;
    const also = others.length > 0 ? `; also ${others.join(", ")}` : "";
    check(`race ${race.number} ${race.name} ${name}`, ok, `${detail}${also}`);
  }
}
process.stdout.write(failures === 0 ? "all as promised\n" : `${failures} not as promised\n`);
process.exit(failures === 0 ? 0 : 1);
