import type { QueueRow } from "../../model/window/parts.ts";
import { queueColour, Swatch } from "../pieces/swatch.tsx";
import { go, href, route } from "../route.ts";
import { shown } from "../state.ts";
import { bareName, count, gpus, name, plural } from "../words.ts";

const unlimited = (milli: number): boolean => milli < 0;
const borrowedOf = ({ quota, allocated }: QueueRow): number => (unlimited(quota) ? 0 : Math.max(0, allocated - quota));

/** Who has what they deserve, who borrows, what can be taken back. */
export function QueuesView() {
  const part = shown.value?.queues;
  const chosen =
    part?.queues.find((queue) => queue.name === route.value.path[0]) ?? part?.queues.find((queue) => queue.isLeaf);
  const leaves = part?.queues.filter((queue) => queue.isLeaf) ?? [];
  const borrowed = leaves.reduce((sum, queue) => sum + borrowedOf(queue), 0);
  const unused = leaves.reduce(
    (sum, { quota, allocated }) => sum + (unlimited(quota) ? 0 : Math.max(0, quota - allocated)),
    0,
  );
  const most = Math.max(
    1000,
    part?.total ?? 0,
    ...(part?.queues ?? []).flatMap(({ quota, allocated, fairShare, requested }) => [
      quota,
      allocated,
      fairShare,
      Math.min(requested, 2 * (part?.total ?? 0)),
    ]),
  );
  return (
    <div class="two">
      <div class="page">
        <div class="page-head">
          <h1>Queues</h1>
          <p>
            {part === undefined
              ? "–"
              : `${gpus(borrowed)} GPUs are borrowed and ${gpus(unused)} of quota lie unused. Shares are divided among ${gpus(part.total)} GPUs.`}
          </p>
        </div>
        <div class="table-scroll">
          <table>
            <thead>
              <tr>
                <th>Queue</th>
                <th>in use, pale: borrowed, outline: requested; stroke: quota, triangle: fair share</th>
                <th class="num">Quota</th>
                <th class="num">Fair</th>
                <th class="num">Limit</th>
                <th class="num">In use</th>
                <th class="num">Borrowed</th>
                <th class="num">Requested</th>
                <th class="num">Waiting</th>
              </tr>
            </thead>
            <tbody>
              {part?.queues.map((queue) => {
                const borrows = borrowedOf(queue);
                return (
                  <tr
                    key={queue.name}
                    class="queue-row link"
                    aria-selected={queue.name === chosen?.name}
                    data-queue={queue.name}
                    onClick={() => go(href("queues", [queue.name]))}
                  >
                    <td>
                      <a
                        class="named"
                        href={href("queues", [queue.name])}
                        style={{ paddingLeft: `${queue.depth * 18 + 4}px` }}
                      >
                        {queue.isLeaf ? <Swatch queue={queue.name} /> : <i class="sw hollow" aria-hidden="true" />}
                        {name(queue.name)}
                      </a>
                    </td>
                    <td style={{ width: "40%", minWidth: "200px" }}>
                      <QueueBar queue={queue} most={most} />
                    </td>
                    <td class="num">{amount(queue.quota)}</td>
                    <td class="num">{gpus(queue.fairShare)}</td>
                    <td class="num dim">{amount(queue.limit)}</td>
                    <td class="num">
                      <b>{gpus(queue.allocated)}</b>
                    </td>
                    <td class={borrows > 0 ? "num warn" : "num faint"}>{borrows > 0 ? gpus(borrows) : "none"}</td>
                    <td class="num dim">{gpus(queue.requested)}</td>
                    <td class={queue.pending > 0 ? "num" : "num faint"}>
                      {queue.pending > 0 ? count(queue.pending) : "none"}
                    </td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
        {part?.queues
          .filter(({ note }) => note !== "")
          .map(({ name: queue, note }) => (
            <p key={queue} class="warn">
              {name(queue)}: {name(note)}
            </p>
          ))}
        <TakenBack queues={leaves} />
      </div>
      <aside class="side" aria-label="queue">
        {chosen !== undefined && <QueuePanel queue={chosen} />}
      </aside>
    </div>
  );
}

function amount(milli: number): string {
  return unlimited(milli) ? "none" : gpus(milli);
}

function QueueBar({ queue, most }: { readonly queue: QueueRow; readonly most: number }) {
  const { quota, fairShare, limit, allocated, requested, isLeaf } = queue;
  const x = (milli: number): string => `${Math.max(0, Math.min(100, (milli / most) * 100))}%`;
  const fill = isLeaf ? queueColour(queue.name) : "var(--ink2)";
  const within = unlimited(quota) ? allocated : Math.min(allocated, quota);
  return (
    <svg class="queue-bar" aria-hidden="true">
      <rect x="0" y="9" width={x(requested)} height="8" rx="2" style={{ fill: "none", stroke: "var(--line2)" }} />
      <rect x="0" y="9" width={x(within)} height="8" rx="2" style={{ fill }} />
      {allocated > within && (
        <rect x={x(within)} y="9" width={x(allocated - within)} height="8" style={{ fill, opacity: 0.45 }} />
      )}
      {!unlimited(quota) && (
        <line x1={x(quota)} x2={x(quota)} y1="4" y2="22" style={{ stroke: "var(--ink)", strokeWidth: 1.6 }} />
      )}
      <svg x={x(fairShare)} y="1" style={{ overflow: "visible" }} aria-hidden="true">
        <path d="M0 0l3.6 5h-7.2z" style={{ fill: "var(--ink)" }} />
      </svg>
      {!unlimited(limit) && (
        <svg x={x(limit)} y="4" style={{ overflow: "visible" }} aria-hidden="true">
          <path d="M-3 0h3v18h-3" style={{ fill: "none", stroke: "var(--ink2)", strokeWidth: 1.4 }} />
        </svg>
      )}
    </svg>
  );
}

function TakenBack({ queues }: { readonly queues: readonly QueueRow[] }) {
  const borrowers = queues.filter((queue) => borrowedOf(queue) > 0);
  if (borrowers.length === 0) return null;
  return (
    <section style={{ marginTop: "26px", maxWidth: "760px" }}>
      <div class="sec">
        <h2>What can be taken back</h2>
        <span>beyond the fair share first</span>
      </div>
      <table>
        <thead>
          <tr>
            <th>Queue</th>
            <th class="num">Beyond quota</th>
            <th class="num">Beyond fair share</th>
            <th class="num">Cannot be evicted</th>
          </tr>
        </thead>
        <tbody>
          {borrowers.map((queue) => (
            <tr key={queue.name}>
              <td>
                <span class="named">
                  <Swatch queue={queue.name} />
                  {name(queue.name)}
                </span>
              </td>
              <td class="num">{gpus(borrowedOf(queue))}</td>
              <td class="num">{gpus(Math.max(0, queue.allocated - queue.fairShare))}</td>
              <td class="num">{gpus(queue.allocatedNonPreemptible)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function QueuePanel({ queue }: { readonly queue: QueueRow }) {
  const { quota, fairShare, allocated, weight } = queue;
  const surplus = unlimited(quota) ? 0 : fairShare - quota;
  const jobs = shown.value?.jobs.jobs.filter((job) => job.queue === queue.name) ?? [];
  const occupants = (shown.value?.wall.occupants ?? [])
    .filter(([, , of]) => of === queue.name)
    .map(([id, group, , , pods, each]) => ({ id, group, milli: pods * each }))
    .sort((a, b) => b.milli - a.milli)
    .slice(0, 6);
  return (
    <>
      <div class="side-head">
        {queue.isLeaf && <Swatch queue={queue.name} />}
        <h2>{name(queue.name)}</h2>
        <span>priority {queue.priority}</span>
      </div>
      <dl class="kv sum">
        <dt>Quota, what it deserves</dt>
        <dd class="num">{amount(quota)}</dd>
        {!unlimited(quota) && (
          <>
            <dt>{surplus < 0 ? "Less than that is requested" : `Surplus of its parent, by weight ${weight}`}</dt>
            <dd class="num">
              {surplus < 0 ? "− " : "+ "}
              {gpus(Math.abs(surplus))}
            </dd>
          </>
        )}
        <dt class="total">Fair share</dt>
        <dd class="num total">{gpus(fairShare)}</dd>
        <dt>In use</dt>
        <dd class="num">{gpus(allocated)}</dd>
        <dt>{fairShare >= allocated ? "May still take" : "Others may take back"}</dt>
        <dd class="num">{gpus(Math.abs(fairShare - allocated))}</dd>
      </dl>
      <div class="side-head ruled">
        <h2>Waiting</h2>
        <span>{jobs.length === 0 ? "nothing" : plural(jobs.length, "workload")}</span>
      </div>
      <ul class="plain">
        {jobs.map(({ id, gpus: milli }) => (
          <li key={id}>
            <a href={href("why", id.split("/"))}>
              <span class="mono">{bareName(id)}</span>
              <span class="fill" />
              <span class="num">{gpus(milli)}</span>
            </a>
          </li>
        ))}
      </ul>
      <div class="side-head ruled">
        <h2>Holding most</h2>
        {occupants.length === 0 && <span>no workload</span>}
      </div>
      <ul class="plain">
        {occupants.map(({ id, group, milli }) => (
          <li key={id}>
            <a href={href("gangs", group.split("/"))}>
              <span class="mono">{bareName(group)}</span>
              <span class="fill" />
              <span class="num">{gpus(milli)}</span>
            </a>
          </li>
        ))}
      </ul>
    </>
  );
}
