import type { GangLine } from "../../model/window/parts.ts";
import { queueColour, Swatch } from "../pieces/swatch.tsx";
import { go, goWith, href, route } from "../route.ts";
import { momentMs, shown } from "../state.ts";
import { count, gpus, name, plural, shortSpan, span } from "../words.ts";

const kinds: Readonly<Record<string, string>> = {
  PodCliqueSet: "set",
  Replica: "replica",
  PodCliqueScalingGroup: "scaling group",
  GroupReplica: "group replica",
  PodClique: "clique",
  PodGroup: "group",
};
const shows = [
  { show: "", label: "All" },
  { show: "waiting", label: "Waiting" },
  { show: "breach", label: "In breach" },
] as const;

const isBreached = ({ breach, ending }: GangLine): boolean => breach !== "" || ending !== "";
const isWaiting = ({ scheduled, replicas }: GangLine): boolean => scheduled < replicas;

/** Is it whole, and how long until it is ended. */
export function GangsView() {
  const gangs = shown.value?.gangs.gangs;
  const show = route.value.query.get("show") ?? "";
  const asked = route.value.path.slice(0, 2).join("/");
  const rows = gangs?.filter((gang) =>
    show === "breach" ? isBreached(gang) : show === "waiting" ? isWaiting(gang) : true,
  );
  const chosen = gangs?.find(({ namespace, name: bare }) => `${namespace}/${bare}` === asked);
  return (
    <div class="two">
      <div class="page">
        <div class="page-head">
          <h1>Gangs</h1>
          <p>
            {gangs === undefined
              ? "–"
              : `${plural(gangs.filter(({ depth }) => depth === 0).length, "gang")}, ${count(gangs.filter(isBreached).length)} in breach.`}
          </p>
          <span class="fill" />
          {/* biome-ignore lint/a11y/useSemanticElements: a fieldset cannot be laid out in a row of its neighbours */}
          <div class="seg" role="group" aria-label="show">
            {shows.map(({ show: which, label }) => (
              <button key={which} type="button" aria-pressed={show === which} onClick={() => goWith({ show: which })}>
                {label}
              </button>
            ))}
          </div>
        </div>
        {rows?.length === 0 ? (
          <p class="empty">
            {show === "breach" ? "No gang is in breach." : "There are no gangs."}
            <code>kubectl apply -f examples/gangs/simple1.yaml</code>
          </p>
        ) : (
          <div class="table-scroll">
            <table>
              <thead>
                <tr>
                  <th>Gang</th>
                  <th>Pods, with a stroke at the minimum</th>
                  <th class="num">Minimum</th>
                  <th class="num">Scheduled</th>
                  <th class="num">Ready</th>
                  <th class="num">GPUs</th>
                  <th>State</th>
                </tr>
              </thead>
              <tbody>
                {rows?.map((gang, at) => (
                  <tr
                    key={`${gang.kind} ${gang.namespace}/${gang.name} ${at}`}
                    class="link"
                    aria-selected={gang === chosen}
                    onClick={() => go(href("gangs", [gang.namespace, gang.name], show === "" ? {} : { show }))}
                  >
                    <td>
                      <a
                        class="named"
                        href={href("gangs", [gang.namespace, gang.name], show === "" ? {} : { show })}
                        style={{ paddingLeft: `${gang.depth * 18 + 4}px` }}
                      >
                        {gang.kind === "PodGroup" && <Swatch queue={gang.queue} />}
                        <span class="mono">{name(gang.name)}</span>
                        <span class="gang-kind">
                          {gang.depth === 0 ? name(gang.namespace) : (kinds[gang.kind] ?? gang.kind)}
                        </span>
                      </a>
                    </td>
                    <td>
                      <Dots gang={gang} />
                    </td>
                    <td class="num">{count(gang.minimum)}</td>
                    <td class="num">
                      {count(gang.scheduled)} of {count(gang.replicas)}
                    </td>
                    <td class="num">{count(gang.ready)}</td>
                    <td class="num dim">{gang.kind === "PodGroup" ? gpus(gang.gpus) : ""}</td>
                    <td>
                      <State gang={gang} />
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </div>
      <aside class="side" aria-label="gang">
        {chosen === undefined ? <p class="empty">Select a gang.</p> : <GangPanel gang={chosen} />}
      </aside>
    </div>
  );
}

const dotsMax = 26;

function Dots({ gang: { replicas, minimum, ready, scheduled, queue, breach } }: { readonly gang: GangLine }) {
  const fill = queue === "" ? "var(--ink2)" : queueColour(queue);
  const lost = breach === "" ? 0 : Math.max(0, minimum - ready);
  return (
    <span class="dots" aria-hidden="true">
      {Array.from({ length: Math.min(replicas, dotsMax) }, (_, at) => (
        <>
          {at === minimum && minimum < replicas && <span class="minimum" />}
          {at < ready ? (
            <i class="dot ready" style={{ background: fill }} />
          ) : at < ready + lost ? (
            <i class="dot lost" />
          ) : at < scheduled ? (
            <i class="dot" style={{ borderColor: fill }} />
          ) : (
            <i class="dot waits" />
          )}
        </>
      ))}
      {replicas > dotsMax && <span class="faint">+{replicas - dotsMax}</span>}
    </span>
  );
}

function State({ gang }: { readonly gang: GangLine }) {
  if (gang.ending !== "") return <span class="chip bad">ending</span>;
  if (gang.breach !== "")
    return (
      <span class="chip bad">
        {gang.endsAt === "" ? "breach" : `ends in ${span(Date.parse(gang.endsAt) - momentMs.value)}`}
      </span>
    );
  if (gang.scheduled < gang.minimum) return <span class="chip warn">waits</span>;
  if (gang.scheduled < gang.replicas) return <span class="chip">more may start</span>;
  return <span class="chip ok">whole</span>;
}

function GangPanel({ gang }: { readonly gang: GangLine }) {
  const { kind, namespace, name: bare, queue, since, endsAt, breach, ending, minimum, ready } = gang;
  const id = `${namespace}/${bare}`;
  const waits = shown.value?.jobs.jobs.some((job) => job.id === id) === true;
  return (
    <>
      <div class="side-head">
        {queue !== "" && <Swatch queue={queue} />}
        <h2 class="mono">{name(bare)}</h2>
        <span>{kinds[kind] ?? kind}</span>
      </div>
      <dl class="kv">
        <dt>Namespace</dt>
        <dd>{name(namespace)}</dd>
        {queue !== "" && (
          <>
            <dt>Queue</dt>
            <dd>
              <a href={href("queues", [queue])}>{name(queue)}</a>
            </dd>
          </>
        )}
        <dt>Ready</dt>
        <dd>
          {count(ready)}, needs {count(minimum)}
        </dd>
        {since !== "" && (
          <>
            <dt>Created</dt>
            <dd>{shortSpan(momentMs.value - Date.parse(since))} ago</dd>
          </>
        )}
        {(breach !== "" || ending !== "") && (
          <>
            <dt>Breach</dt>
            <dd class="bad">{name(ending === "" ? breach : ending)}</dd>
          </>
        )}
        {endsAt !== "" && (
          <>
            <dt>Ends in</dt>
            <dd class="bad">{span(Date.parse(endsAt) - momentMs.value)}, if the breach lasts</dd>
          </>
        )}
      </dl>
      {waits && (
        <div class="actions">
          <a class="btn" href={href("why", [namespace, bare])}>
            Why does it wait
          </a>
        </div>
      )}
    </>
  );
}
