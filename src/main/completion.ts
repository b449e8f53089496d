import type { Command } from "commander";

export const shells = ["bash", "zsh", "fish"] as const;
export type Shell = (typeof shells)[number];

interface Words {
  /** `` for the program, `fault list` for a subcommand. */
  readonly path: string;
  readonly commands: readonly string[];
  readonly options: readonly string[];
}

/** A script that completes commands and flags. It is generated from the commands themselves and starts no program. */
export function completionScript(program: Command, shell: Shell): string {
  const all = [...wordsOf(program, "")];
  if (shell === "fish") return fishScript(all);
  const bash = bashScript(all);
  return shell === "zsh" ? `autoload -U +X bashcompinit && bashcompinit\n${bash}` : bash;
}

function* wordsOf(command: Command, path: string): Iterable<Words> {
  const options = [...command.options.map(({ long }) => long ?? ""), "--help"].filter((option) => option !== "");
  yield { path, commands: command.commands.map((each) => each.name()).sort(), options: options.sort() };
  for (const each of command.commands) yield* wordsOf(each, path === "" ? each.name() : `${path} ${each.name()}`);
}

function bashScript(all: readonly Words[]): string {
  const cases = all.map(
    ({ path, commands, options }) =>
      `    ${JSON.stringify(path)}) words=${JSON.stringify([...commands, ...options].join(" "))} ;;`,
  );
  const paths = all.map(({ path }) => path).filter((path) => path !== "");
  return `_muster() {
  local cur="\${COMP_WORDS[COMP_CWORD]}" path="" next words i
  for ((i = 1; i < COMP_CWORD; i++)); do
    next="\${path:+$path }\${COMP_WORDS[i]}"
    case "$next" in
      ${paths.map((path) => JSON.stringify(path)).join("|")}) path="$next" ;;
    esac
  done
  case "$path" in
${cases.join("\n")}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o default -F _muster muster ./muster
`;
}

function fishScript(all: readonly Words[]): string {
  const lines = all.flatMap(({ path, commands, options }) => {
    const names = path.split(" ").filter((name) => name !== "");
    const isHere =
      names.length === 0
        ? "__fish_use_subcommand"
        : names.map((name) => `__fish_seen_subcommand_from ${name}`).join("; and ");
    const found = commands.map((name) => `complete -c muster -f -n '${isHere}' -a ${name}`);
    return [...found, ...options.map((option) => `complete -c muster -n '${isHere}' -l ${option.slice(2)}`)];
  });
  return `${lines.join("\n")}\n`;
}
