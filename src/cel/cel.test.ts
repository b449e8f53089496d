import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parseQuantity } from "../model/values/quantity.ts";
import { compile, evaluate } from "./cel.ts";
import { CelQuantity } from "./library/kubernetes.ts";
import {
  boolType,
  type CelType,
  doubleType,
  dynType,
  intType,
  listType,
  mapType,
  objectType,
  quantityType,
  stringType,
} from "./types.ts";
import { CelDefaultedMap, type CelValue } from "./values.ts";

function run(expression: string, bindings: Record<string, CelValue> = {}, costLimit?: number) {
  const variables = Object.fromEntries(Object.keys(bindings).map((name) => [name, dynType]));
  const compiled = compile(expression, { variables, hasBindings: true });
  if (!compiled.ok) return `compile: ${compiled.errors[0]?.split("\n")[0]?.replace(/^ERROR: <input>:\d+:\d+: /, "")}`;
  const result = evaluate(compiled.program, bindings, costLimit === undefined ? {} : { costLimit });
  if (result.kind === "value") return result.value;
  return result.kind === "error" ? `error: ${result.message}` : "cost exceeded";
}

const self = { name: "web", replicas: 3, tags: ["a", "b"], labels: { app: "x", "a-b": "y" }, ratio: 0.5, none: null };

describe("expressions that hold", () => {
  test.each([
    "1 + 2 * 3 == 7",
    "(1 + 2) * 3 == 9",
    "-9223372036854775808 < 0",
    "9223372036854775807 > 9007199254740993",
    "9007199254740993 - 9007199254740992 == 1",
    "7 / 2 == 3 && -7 / 2 == -3 && -7 % 3 == -1",
    "7.0 / 2.0 == 3.5",
    "1 < 2.5 && 2u > 1 && 3.0 >= 3u",
    "dyn(1) == dyn(1.0) && dyn(1u) == dyn(1)",
    "1u + 2u == 3u",
    "0x10 == 16 && 1e3 == 1000.0 && .5 == 0.5",
    "'a' + \"b\" == '''ab'''",
    "r'\\d' == '\\\\d'",
    "b'abc' == bytes('abc') && size(b'\\xff') == 1",
    "'\\u00e9'.size() == 1 && size('😀') == 1",
    "'a' < 'b' && 'Z' < 'a' && '\\uffff' < '😀'",
    "!(true && false) || false",
    "true ? 1 == 1 : false",
    "1 in [1, 2] && !(3 in [1, 2]) && 'a' in {'a': 1}",
    "[1, 2] + [3] == [1, 2, 3]",
    "{'a': dyn(1), 'b': dyn([1])} == {'b': dyn([1]), 'a': dyn(1)}",
    "{1: 'a'}[1] == 'a' && {1: 'a'}[dyn(1u)] == 'a' && {true: 1}[true] == 1",
    "size([1, 2]) == 2 && {'a': 1}.size() == 1",
    "[1, 2, 3].all(x, x > 0) && [1, 2].exists(x, x == 2) && [1, 2].exists_one(x, x == 2)",
    "[1, 2, 3].filter(x, x > 1) == [2, 3] && [1, 2].map(x, x * 2) == [2, 4] && [1, 2, 3].map(x, x > 1, x * 2) == [4, 6]",
    "{'a': 1, 'b': 2}.all(k, k in ['a', 'b'])",
    "[1, 0].exists(x, 1 / x > 0)",
    "![0, 1].all(x, 1 / x > 5)",
    "[5, 6].all(i, v, v == i + 5) && {'a': 1}.exists(k, v, k == 'a' && v == 1) && [1, 1].existsOne(i, v, i == v)",
    "[1, 2].transformList(i, v, i + v) == [1, 3] && [1, 2, 3].transformList(i, v, i > 0, v) == [2, 3]",
    "{'a': 1}.transformMap(k, v, v + 1) == {'a': 2} && {'a': 1, 'b': 5}.transformMap(k, v, v > 1, v) == {'b': 5}",
    "{'a': 'x'}.transformMapEntry(k, v, {v: k}) == {'x': 'a'}",
    "cel.bind(x, 5, x * x) == 25",
    "has(self.name) && !has(self.missing) && has(self.labels.app) && has(self.none)",
    "self.labels['a-b'] == 'y' && self.name == 'web' && self.tags[1] == 'b'",
    "self.?missing.orValue('d') == 'd' && self.?name.orValue('d') == 'web'",
    "self.?labels.?nope.hasValue() == false && self.?labels.app.value() == 'x'",
    "self.labels[?'app'].value() == 'x' && !self.tags[?9].hasValue() && self.tags[?0] == optional.of('a')",
    "optional.of(1).optMap(x, x + 1).value() == 2 && optional.none().optMap(x, x).orValue(9) == 9",
    "optional.of(1).optFlatMap(x, optional.of(x + 1)) == optional.of(2)",
    "optional.none().or(optional.of(3)).value() == 3 && optional.ofNonZeroValue('') == optional.none()",
    "[?optional.none(), 1] == [1] && {?'a': optional.none(), 'b': 1} == {'b': 1}",
    "type(1) == int && type(1.0) == double && type('a') == string && type([]) == list && type(null) == null_type",
    "type(timestamp('2024-01-01T00:00:00Z')) == google.protobuf.Timestamp",
    "int('42') == 42 && int(3.9) == 3 && uint(3) == 3u && double('1.5') == 1.5 && string(1.5) == '1.5' && bool('true')",
    "string(true) == 'true' && string(b'hi') == 'hi' && string(12) == '12' && string(1e21) == '1e+21'",
    "timestamp('2024-02-29T12:30:45.5Z').getFullYear() == 2024",
    "timestamp('2024-02-29T12:30:45.5Z').getMonth() == 1 && timestamp('2024-02-29T00:00:00Z').getDate() == 29",
    "timestamp('2024-02-29T23:30:00Z').getHours('+02:00') == 1 && timestamp('2024-02-29T00:00:00Z').getDayOfYear() == 59",
    "timestamp('2024-07-01T23:30:00.250Z').getHours('America/New_York') == 19 && timestamp('2024-07-01T23:30:00.250Z').getMilliseconds('Europe/Berlin') == 250",
    "timestamp('2024-01-01T00:00:00Z') + duration('1h') == timestamp('2024-01-01T01:00:00Z')",
    "timestamp('2024-01-02T00:00:00Z') - timestamp('2024-01-01T00:00:00Z') == duration('24h')",
    "duration('1h30m') > duration('89m') && duration('90s').getMinutes() == 1 && string(duration('1m')) == '60s'",
    "duration('1.5s').getMilliseconds() == 500 && int(timestamp('1970-01-01T00:00:10Z')) == 10",
    "string(timestamp('2024-01-01T00:00:00.250Z')) == '2024-01-01T00:00:00.25Z'",
    "'abc'.matches('^[a-c]+$') && matches('ABC', '(?i)abc') && !'x'.matches('^$')",
    "'a1b22'.find('[0-9]+') == '1' && 'a1b22'.findAll('[0-9]+') == ['1', '22'] && 'a1b2'.findAll('[0-9]', 1) == ['1'] && 'x'.find('y') == ''",
    "'hello'.charAt(1) == 'e' && 'hello'.charAt(5) == '' && 'hello'.indexOf('l') == 2 && 'hello'.lastIndexOf('l') == 3 && 'hello'.indexOf('l', 3) == 3",
    "'a😀b'.indexOf('b') == 2 && 'a😀b'.charAt(1) == '😀' && 'a😀b'.substring(1, 2) == '😀'",
    "['a', 'b'].join('-') == 'a-b' && ['a', 'b'].join() == 'ab' && 'a,b,c'.split(',') == ['a', 'b', 'c'] && 'a,b,c'.split(',', 2) == ['a', 'b,c'] && 'ab'.split('') == ['a', 'b']",
    "'hello'.substring(1) == 'ello' && 'hello'.substring(1, 3) == 'el' && 'aaa'.replace('a', 'b') == 'bbb' && 'aaa'.replace('a', 'b', 2) == 'bba'",
    "'  x '.trim() == 'x' && 'aBc'.upperAscii() == 'ABC' && 'aBc'.lowerAscii() == 'abc' && strings.quote('a\"b') == '\"a\\\\\"b\"'",
    "'%s=%d %.2f %x %b %%'.format(['a', 5, 1.5, 255, 5]) == 'a=5 1.50 ff 101 %'",
    "'%s'.format([[dyn(1), dyn('a'), dyn({'k': true})]]) == '[1, a, {k: true}]'",
    "[1, 2, 3].isSorted() && ![2, 1].isSorted() && [1, 2].sum() == 3 && [3, 1].min() == 1 && ['a', 'b'].max() == 'b'",
    "[1, 2, 1].indexOf(1) == 0 && [1, 2, 1].lastIndexOf(1) == 2 && [1].indexOf(9) == -1",
    "[1, 2, 3].slice(1, 3) == [2, 3] && [[dyn(1)], [dyn(2), dyn([3])]].flatten() == [dyn(1), dyn(2), dyn([3])] && [[dyn(1)], [dyn(2), dyn([3])]].flatten(2) == [1, 2, 3]",
    "[3, 1, 2].sort() == [1, 2, 3] && [1, 1, 2].distinct() == [1, 2] && [1, 2].reverse() == [2, 1] && lists.range(3) == [0, 1, 2]",
    "[{'n': 2}, {'n': 1}].sortBy(x, x.n)[0].n == 1",
    "sets.contains([1, 2], [2]) && sets.intersects([1], [1, 2]) && sets.equivalent([1, 1, 2], [2, 1]) && !sets.contains([1], [2])",
    "quantity('1Gi').compareTo(quantity('1024Mi')) == 0 && quantity('500m').isLessThan(quantity('1'))",
    "quantity('1').add(quantity('500m')) == quantity('1500m') && quantity('2').sub(1).asInteger() == 1 && quantity('0').sign() == 0",
    "isQuantity('1Ki') && !isQuantity('1 Ki') && quantity('1.5').isInteger() == false && quantity('1.5').asApproximateFloat() == 1.5",
    "url('https://a.b:80/p/q?x=1&x=2').getHost() == 'a.b:80' && url('https://a.b:80/p').getPort() == '80' && url('/x').getScheme() == ''",
    "url('https://[::1]:80/').getHostname() == '::1' && url('http://h/?a=1&a=2').getQuery()['a'] == ['1', '2'] && isURL('http://x') && !isURL('../x')",
    "url('https://e.com/path with spaces/').getEscapedPath() == '/path%20with%20spaces/'",
    "ip('10.0.0.1').family() == 4 && ip('::1').isLoopback() && isIP('1.2.3.4') && !isIP('1.2.3.04') && ip.isCanonical('::1')",
    "ip('8.8.8.8').isGlobalUnicast() && ip('169.254.1.1').isLinkLocalUnicast() && string(ip('::0')) == '::'",
    "cidr('10.0.0.0/8').containsIP('10.1.2.3') && cidr('10.0.0.0/8').containsCIDR(cidr('10.1.0.0/16')) && cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8')",
    "cidr('10.0.0.0/8').prefixLength() == 8 && cidr('10.0.0.0/8').ip() == ip('10.0.0.0') && isCIDR('::/0') && !isCIDR('10.0.0.0/33')",
    "semver('1.2.3').isLessThan(semver('1.10.0')) && semver('1.0.0-rc.1').compareTo(semver('1.0.0')) == -1 && semver('v1.2', true).minor() == 2",
    "isSemver('1.2.3') && !isSemver('1.2') && isSemver('v1.2', true) && semver('1.2.3+a') == semver('1.2.3+b')",
    "!format.dns1123Label().validate('ok').hasValue() && format.dns1123Label().validate('-x').hasValue() && format.named('nope') == optional.none()",
    "format.named('uuid').value().validate('x').value() == ['does not match the UUID format']",
    "[1, 2].includes(1) && dyn('a').includes('a')",
    "self.ratio < 1.0 && self.replicas > 2.5",
    "self.none == null && null == self.none",
    "true || self.missing == 1",
    "self.missing == 1 || true",
    "!(self.missing == 1 && false)",
    "// a comment\n1 == 1",
    "self.`labels`.app == 'x'",
  ])("%s", (expression) => {
    expect(run(expression, { self })).toBe(true);
  });
});

describe("evaluation stops with an error", () => {
  test.each([
    ["1 / 0", "error: division by zero"],
    ["1 % 0", "error: modulus by zero"],
    ["9223372036854775807 + 1", "error: integer overflow"],
    ["0u - 1u", "error: unsigned integer overflow"],
    ["self.missing", "error: no such key: missing"],
    ["self.tags[7]", "error: index out of bounds: 7"],
    ["self.name + 1", "error: no such overload"],
    ["self.name && true", "error: no such overload"],
    ["self.missing == 1 || self.also == 2", "error: no such key: missing"],
    ["'a'.matches('(' + '')", /^error: .*\(/],
    ["'a'.matches('(')", "compile: invalid matches argument"],
    ["optional.none().value()", "error: optional.none() dereference"],
    ["duration('1x' + '')", 'error: time: invalid duration "1x"'],
    ["duration('1x')", "compile: invalid duration argument"],
    ["[1, 'a']", "compile: expected type 'int' but found 'string'"],
    ["timestamp('2024-01-01T00:00:00Z').getHours('Nowhere/Land')", "error: unknown time zone Nowhere/Land"],
    ["'abc'.substring(5)", "error: index out of range: 5"],
    ["{'a': 1, 'a': 2}", "error: Failed with repeated key: a"],
    ["[].min()", "error: min called on empty list"],
    ["self.__proto__", "error: no such key: __proto__"],
    ["self['constructor']", "error: no such key: constructor"],
  ])("%s", (expression, message) => {
    const result = run(expression, { self });
    if (typeof message === "string") expect(result).toBe(message);
    else expect(result).toMatch(message);
  });
});

describe("compilation refuses", () => {
  const variables: Record<string, CelType> = {
    self: objectType("Root", {
      n: intType,
      s: stringType,
      l: listType(stringType),
      m: mapType(stringType, intType),
      d: doubleType,
    }),
    x: intType,
  };
  test.each([
    ["self.nope", "1:5: undefined field 'nope'"],
    ["foo == 1", "1:1: undeclared reference to 'foo' (in container '')"],
    ["x + 'a'", "1:3: found no matching overload for '_+_' applied to '(int, string)'"],
    ["self.s.contains(1)", "1:16: found no matching overload for 'contains' applied to 'string.(int)'"],
    ["x == 'a'", "1:3: found no matching overload for '_==_' applied to '(int, string)'"],
    ["x == 1.0", "1:3: found no matching overload for '_==_' applied to '(int, double)'"],
    ["x && true", "1:3: found no matching overload for '_&&_' applied to '(bool, int)'"],
    ["self.l.all(i, i)", "1:15: expected type 'bool' but found 'string'"],
    [
      "x.all(i, true)",
      "1:1: expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)",
    ],
    ["x.y", "1:2: type 'int' does not support field selection"],
    ["self.s.nope()", "1:12: undeclared reference to 'nope' (in container '')"],
    ["1 +", "1:4: Syntax error: mismatched input '<EOF>'"],
    ["a b", "1:3: Syntax error: mismatched input 'b'"],
    ["Foo{a: 1}", "1:4: undeclared reference to 'Foo' (in container '')"],
    ["namespace", "1:1: reserved identifier: namespace"],
    ["has(x)", "1:4: invalid argument to has() macro"],
    ["99999999999999999999", "1:1: invalid int literal"],
  ])("%s", (expression, message) => {
    const result = compile(expression, { variables });
    expect(result.ok ? "" : result.errors[0]?.split("\n")[0]).toBe(`ERROR: <input>:${message}`);
  });

  test("a marker is under the position", () => {
    const result = compile("self.nope", { variables });
    expect(result.ok ? [] : result.errors).toEqual([
      "ERROR: <input>:1:5: undefined field 'nope'\n | self.nope\n | ....^",
    ]);
  });

  test("the wrong result type", () => {
    expect(compile("self.n", { variables, result: boolType })).toEqual({
      ok: false,
      errors: ["must evaluate to bool"],
    });
  });

  test("chains that would overflow the stack", () => {
    for (const long of [`self${".a".repeat(50_000)}`, `1${"+1".repeat(50_000)} == 2`, `self${"[0]".repeat(50_000)}`]) {
      expect(compile(long, { variables: { self: dynType } }).ok).toBe(false);
    }
  });

  test("nesting beyond 250 levels", () => {
    const result = compile(`${"(".repeat(300)}1${")".repeat(300)}`, { variables });
    expect(result.ok).toBe(false);
  });
});

/** A device as allocation selectors see it. */
const deviceVariables = {
  device: objectType("DRADevice", {
    driver: { kind: "string", max: 63 },
    attributes: mapType(
      { kind: "string", max: 63 },
      mapType({ kind: "string", max: 32 }, { kind: "dyn", max: 64 }, 32),
      32,
    ),
    capacity: mapType(stringType, mapType(stringType, quantityType, 32), 32),
    allowMultipleAllocations: boolType,
  }),
};
const device = {
  driver: "gpu.example.com",
  attributes: new CelDefaultedMap(new Map([["gpu.example.com", { model: "a100", healthy: true, index: 3 }]])),
  capacity: new CelDefaultedMap(new Map([["gpu.example.com", { memory: new CelQuantity(parseQuantity("80Gi")) }]])),
  allowMultipleAllocations: false,
};

describe("cost", () => {
  const domain = 'device.attributes["gpu.example.com"]';
  const amounts = 'device.capacity["gpu.example.com"]';
  // Ten turns of a loop around a body of known price, seven deep: each level costs 11 + 10 * (3 + what is inside).
  const nested = Array.from({ length: 7 }, (_, i) => `v${i}`).reduce(
    (body, name) => `[0, 1, 2, 3, 4, 5, 6, 7, 8, 9].all(${name}, ${body})`,
    "size('7'.find('[a-z]+')) < 5",
  );
  test.each([
    ["false", 0],
    ['device.driver == "gpu.example.com"', 4],
    ['device.driver != ""', 2],
    [`${domain}.healthy`, 4],
    [`${domain}.index >= 2`, 5],
    [`${domain}.model == "a100"`, 5],
    [`${amounts}.memory.compareTo(quantity("40Gi"))`, 6],
    [`${domain}.firmware.isLessThan(semver("2.1.0"))`, 6],
    ['isSemver("v3.2", true)', 1],
    ['"gpu.example.com" in device.attributes', 3],
    [`${domain}.healthy && ${domain}.idle && ${domain}.cooled`, 12],
    [`!("memory" in ${amounts}) || ${amounts}.memory.isLessThan(quantity("8Gi"))`, 11],
    [`cel.bind(gpu, ${domain}, gpu.healthy)`, 15],
    [`${domain}.exists_one(id, id == "model")`, 133],
    ['device.attributes.exists_one(d, d == "gpu.example.com")', 164],
    [`${domain}.links.split("-").size() > 3`, 19],
    [`${domain}.model.matches("a[0-9]{3}")`, 25],
    [`${domain}.model.matches("h[12]00")`, 18],
    [`7 in ${domain}.peers`, 68],
    [`${domain}.peers.includes(7)`, 68],
    [`${domain}.peers.exists(p, p > 7)`, 5 + 6 * 64],
    [`${domain}.zones.all(z, z != "")`, 5 + 4 * 64],
    ["device.allowMultipleAllocations != true", 3],
    [nested, 85_555_551],
  ])("%s is estimated at %i", (expression, cost) => {
    const result = compile(expression, { variables: deviceVariables, hasBindings: true });
    expect(result.ok ? result.program.costMax : result.errors).toBe(cost);
  });

  test("never exceeds the estimate", () => {
    for (const expression of [
      'device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].index >= 3',
      'device.attributes["gpu.example.com"].exists(k, k == "model") || has(device.attributes["x"].y)',
      'device.attributes["gpu.example.com"].transformMap(k, v, k == "model", v).size() == 1',
    ]) {
      const compiled = compile(expression, { variables: deviceVariables });
      if (!compiled.ok) throw new Error(compiled.errors.join());
      const result = evaluate(compiled.program, { device });
      expect(result.kind).toBe("value");
      expect(result.cost).toBeLessThanOrEqual(compiled.program.costMax);
    }
  });

  test("a loop ends at the limit", () => {
    const expression = "lists.range(1000).all(x, lists.range(1000).all(y, x + y >= 0))";
    expect(run(expression, {}, 10_000)).toBe("cost exceeded");
    expect(run("[1, 2].all(x, x > 0)", {}, 10_000)).toBe(true);
  });

  test("an exceeded budget is not an error that || could absorb", () => {
    expect(run("lists.range(1000).all(x, x >= 0) || true", {}, 100)).toBe("cost exceeded");
  });
});

describe("device selectors", () => {
  test.each([
    ['device.attributes["gpu.example.com"].model == "a100"', true],
    ['device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0', true],
    ['"other.example.com" in device.attributes', false],
    ['has(device.attributes["other.example.com"].x)', false],
    ['device.attributes["other.example.com"].?x.orValue("none") == "none"', true],
    ['device.attributes[?"other.example.com"].value().size() == 0', true],
    ["device.allowMultipleAllocations", false],
  ])("%s", (expression, expected) => {
    const compiled = compile(expression, { variables: deviceVariables, result: boolType });
    if (!compiled.ok) throw new Error(compiled.errors.join());
    expect(evaluate(compiled.program, { device })).toMatchObject({ kind: "value", value: expected });
  });

  test("a missing attribute is an error, not false", () => {
    const compiled = compile('device.attributes["other.example.com"].x == 1', { variables: deviceVariables });
    if (!compiled.ok) throw new Error(compiled.errors.join());
    expect(evaluate(compiled.program, { device })).toMatchObject({ kind: "error", message: "no such key: x" });
  });
});

test("parsing never throws anything but a located message", () => {
  const pieces = [
    "self",
    ".",
    "a",
    "(",
    ")",
    "[",
    "]",
    "1",
    "'x'",
    "&&",
    "?",
    ":",
    "all",
    ",",
    "{",
    "}",
    "!",
    "-",
    "in",
    " ",
  ];
  fc.assert(
    fc.property(fc.array(fc.constantFrom(...pieces), { maxLength: 14 }), (parts) => {
      const result = compile(parts.join(""), { variables: { self: dynType } });
      if (result.ok) evaluate(result.program, { self }, { costLimit: 1000 });
      else expect(result.errors.length).toBeGreaterThan(0);
    }),
    { numRuns: 2000 },
  );
});

test("int arithmetic agrees with exact arithmetic or overflows", () => {
  const int64 = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
  fc.assert(
    fc.property(int64, int64, fc.constantFrom("+", "-", "*"), (a, b, op) => {
      const exact = op === "+" ? a + b : op === "-" ? a - b : a * b;
      const result = run(`int('${a}') ${op} int('${b}')`);
      if (exact < -(2n ** 63n) || exact >= 2n ** 63n) expect(result).toBe("error: integer overflow");
      else expect(BigInt(result as number | bigint)).toBe(exact);
    }),
  );
});
