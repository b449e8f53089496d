import { expect, test } from "vitest";
import { compileTemplate, TemplateError } from "./goTemplate.ts";

const known = new Set(["Quote", "Shout"]);
const functions = {
  Quote: (value: unknown) => JSON.stringify(String(value)),
  Shout: (a: unknown, b: unknown) => `${String(a)}${String(b)}!`,
};
const context = {
  name: "p",
  list: [{ n: "a" }, { n: "b" }],
  map: { y: 2, x: 1 },
  zero: 0,
  deep: { er: { value: "v" } },
};

test.each([
  ["plain", "plain"],
  ["{{ .name }}", "p"],
  ["{{ .deep.er.value }}", "v"],
  ["{{ .no.such.field }}", "<no value>"],
  ["a {{- .name -}} b", "apb"],
  ["{{/* nothing */}}x", "x"],
  ["{{ range .list }}{{ .n }},{{ end }}", "a,b,"],
  ["{{ range $i, $x := .list }}{{ $i }}{{ $x.n }}{{ end }}", "0a1b"],
  ["{{ range $k, $v := .map }}{{ $k }}={{ $v }} {{ end }}", "x=1 y=2 "],
  ["{{ range .none }}x{{ else }}empty{{ end }}", "empty"],
  ["{{ if .zero }}yes{{ else if .name }}name{{ else }}no{{ end }}", "name"],
  ["{{ with .deep.er }}{{ .value }}{{ end }}", "v"],
  ["{{ with .none }}x{{ else }}{{ .name }}{{ end }}", "p"],
  ["{{ $x := 1 }}{{ if true }}{{ $x = 2 }}{{ end }}{{ $x }}", "2"],
  ["{{ range .list }}{{ $.name }}{{ end }}", "pp"],
  ['{{ or .none "fallback" }}', "fallback"],
  ['{{ and .name "last" }}', "last"],
  ["{{ not .zero }}", "true"],
  ['{{ eq .name "q" "p" }}', "true"],
  ["{{ eq .none true }}", "false"],
  ['{{ index .map "y" }} {{ (index .list 1).n }}', "2 b"],
  ['{{ Quote ( or .none "x" ) }}', '"x"'],
  ['{{ .name | Shout "hey " }}', "hey p!"],
  ['{{ printf "%s-%d %q %%" .name 3 "z" }}', 'p-3 "z" %'],
  ["{{ `raw }}` }}", "raw }}"],
  ['{{ len .list }} {{ default "d" .none }} {{ int "7" }} {{ add 1 2 3 }}', "2 d 7 6"],
  ['{{ $d := dict "a" 1 }}{{ $d.a }}', "1"],
])("%s", (text, expected) => {
  expect(compileTemplate(text, known).render(context, functions)).toBe(expected);
});

test.each(["{{ .a", "{{ if .a }}", "{{ end }}", "{{ nosuch .a }}", "{{ ( .a }}", "{{ .a | 3 }}", "{{ constructor }}"])(
  "%s is not a valid template",
  (text) => {
    expect(() => compileTemplate(text, known)).toThrow(TemplateError);
  },
);
