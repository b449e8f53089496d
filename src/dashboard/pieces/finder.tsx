import { signal } from "@preact/signals";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { go, href, views } from "../route.ts";
import { shown } from "../state.ts";
import { bareName, name } from "../words.ts";

const isOpen = signal(false);

export function openFinder(): void {
  isOpen.value = true;
}

interface Hit {
  readonly text: string;
  readonly about: string;
  readonly address: string;
}

const hitsMax = 9;

function allHits(): Hit[] {
  const model = shown.value;
  const found: Hit[] = views.map((view) => ({ text: view, about: "view", address: href(view) }));
  if (model === undefined) return found;
  const split = (id: string): string[] => [id.slice(0, id.indexOf("/")), id.slice(id.indexOf("/") + 1)];
  for (const { id, queue } of model.jobs.jobs)
    found.push({
      text: bareName(id),
      about: `waits in ${queue === "" ? "no queue" : name(queue)}`,
      address: href("why", split(id)),
    });
  for (const [, group, queue] of model.wall.occupants)
    found.push({
      text: bareName(group),
      about: queue === "" ? "runs" : `runs in ${name(queue)}`,
      address: href("gangs", split(group)),
    });
  for (const [node, rack] of model.wall.nodes)
    found.push({
      text: name(node),
      about: `node in ${name(model.wall.racks[rack] ?? "")}`,
      address: href("wall", [node]),
    });
  for (const queue of model.queues.queues)
    found.push({ text: name(queue.name), about: "queue", address: href("queues", [queue.name]) });
  return found;
}

/** Finds gangs, nodes, queues and views by name. */
export function Finder() {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const input = useRef<HTMLInputElement>(null);
  // Before the next key: what is typed right after `/` belongs to the input, and not to the shortcuts of the page.
  useLayoutEffect(() => {
    if (!isOpen.value) return;
    setText("");
    setAt(0);
    input.current?.focus();
  }, [isOpen.value]);
  if (!isOpen.value) return null;
  const wanted = text.trim().toLowerCase();
  const hits = allHits()
    .filter(({ text: hit, about }) => `${hit} ${about}`.toLowerCase().includes(wanted))
    .slice(0, hitsMax);
  const close = (): void => {
    isOpen.value = false;
  };
  const press = (event: KeyboardEvent): void => {
    if (event.key === "ArrowDown") setAt(Math.min(hits.length - 1, at + 1));
    else if (event.key === "ArrowUp") setAt(Math.max(0, at - 1));
    else if (event.key === "Escape") close();
    else if (event.key === "Enter") {
      const hit = hits[at];
      close();
      if (hit !== undefined) go(hit.address);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: a click beside the box closes it, and so does Escape
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape is handled by the input
    <div class="finder" onClick={(event) => event.target === event.currentTarget && close()}>
      <div class="finder-box" role="dialog" aria-label="find" aria-modal="true">
        <input
          ref={input}
          value={text}
          placeholder="Find a gang, node, queue or view"
          aria-label="find"
          role="combobox"
          aria-expanded="true"
          aria-controls="finder-hits"
          aria-activedescendant={hits.length > 0 ? `finder-hit-${at}` : undefined}
          onInput={(event) => {
            setText(event.currentTarget.value);
            setAt(0);
          }}
          onKeyDown={press}
        />
        <div id="finder-hits" role="listbox" aria-label="found" tabIndex={-1}>
          {hits.map(({ text: hit, about, address }, index) => (
            // biome-ignore lint/a11y/useKeyWithClickEvents: the input above has the focus and handles keys
            <a
              key={`${address} ${about}`}
              id={`finder-hit-${index}`}
              role="option"
              tabIndex={-1}
              aria-selected={index === at}
              href={address}
              onClick={close}
            >
              <span class="mono">{hit}</span>
              <span>{about}</span>
            </a>
          ))}
        </div>
      </div>
    </div>
  );
}
