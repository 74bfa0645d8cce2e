import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join, normalize, resolve } from 'node:path';
import { test } from 'node:test';

const ROOT = resolve(import.meta.dirname, '..');
const MAX_LINES = 400;

/** Every module but the composition root itself and the commands. */
const BELOW_APP: readonly string[] = [
  'model',
  'telemetry',
  'protocol',
  'config',
  'http',
  'catalog',
  'store',
  'bus',
  'cluster',
  'upstream',
  'registry',
  'mcp-registry',
  'credentials',
  'gateway',
  'downstream',
  'control',
];

/** The modules that each module may import, types included. The table of docs/developers/architecture.md, as data. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  model: [],
  telemetry: ['model'],
  protocol: ['model'],
  config: ['model'],
  http: ['model', 'telemetry'],
  catalog: ['model', 'protocol'],
  store: ['model', 'telemetry'],
  bus: ['model', 'telemetry'],
  cluster: ['model', 'telemetry', 'store', 'bus', 'protocol'],
  upstream: ['model', 'telemetry', 'protocol', 'http'],
  registry: ['model', 'telemetry', 'store', 'config'],
  'mcp-registry': ['model', 'config', 'http'],
  credentials: ['model', 'telemetry', 'store', 'http'],
  gateway: ['model', 'telemetry', 'protocol', 'catalog'],
  downstream: ['model', 'telemetry', 'protocol', 'http', 'gateway'],
  control: ['model', 'telemetry', 'config', 'http', 'registry', 'mcp-registry'],
  app: BELOW_APP,
  cli: ['model', 'config', 'http', 'mcp-registry', 'app'],
  compat: ['app', ...BELOW_APP],
  'index.ts': ['app', ...BELOW_APP],
  'client.ts': ['app'],
  'main.ts': ['cli'],
};

/** Types generated beside the JSON Schema that they repeat; shipped with it. */
const GENERATED_TYPES = 'schema/config-input.d.ts';

/** Generated from the description of the control API. */
const CLIENT_OF_CONSOLE = 'ui/src/api/operations.ts';

/** Implementations that only the composition root may name. */
const DRIVERS =
  /\b(Sqlite[A-Z]\w+|StdioTransport|HttpTransport|SseTransport|JsonTransport|MemoryTransport|StateFile|Nats(?:Wire|SharedState|Bucket|Watch))\b/;
const DRIVER_HOMES = /^src\/(app|store|bus|upstream\/transport)\//;

interface Source {
  readonly path: string;
  readonly text: string;
  readonly imports: readonly string[];
}

const sources: readonly Source[] = globSync('src/**/*.ts', { cwd: ROOT }).map((path) => {
  const text = readFileSync(join(ROOT, path), 'utf8');
  const specifiers = [...text.matchAll(/(?:\bfrom\s+|\bimport\s*\(\s*|\bimport\s+)(['"])(\.{1,2}\/[^'"]+)\1/g)].map(
    (m) => m[2]!,
  );
  return { path, text, imports: specifiers.map((specifier) => normalize(join(dirname(path), specifier))) };
});
const product = sources.filter((source) => !/\.(test|contract)\.ts$/.test(source.path));

function moduleOf(path: string): string {
  return path.split('/')[1]!;
}

test('the walk found the sources and their imports', () => {
  assert.ok(product.length > 40, `only ${product.length} files`);
  assert.ok(product.reduce((sum, source) => sum + source.imports.length, 0) > 100);
  const modules = new Set(product.map((source) => moduleOf(source.path)));
  assert.deepEqual(
    [...modules].filter((name) => !(name in MAY_IMPORT)),
    [],
    'modules that are not in the table',
  );
});

test('every import follows the table', () => {
  const wrong: string[] = [];
  for (const source of product) {
    for (const target of source.imports) {
      if (target === GENERATED_TYPES) continue;
      if (!target.startsWith('src/')) wrong.push(`${source.path} leaves src: ${target}`);
      else if (
        moduleOf(target) !== moduleOf(source.path) &&
        !MAY_IMPORT[moduleOf(source.path)]!.includes(moduleOf(target))
      ) {
        wrong.push(`${source.path} -> ${target}`);
      }
    }
  }
  assert.deepEqual(wrong, []);
});

test('no import cycle', () => {
  const graph = new Map(product.map((source) => [source.path, source.imports]));
  const done = new Set<string>();
  const cycles: string[] = [];
  const visit = (path: string, trail: readonly string[]): void => {
    if (done.has(path)) return;
    const at = trail.indexOf(path);
    if (at >= 0) {
      cycles.push([...trail.slice(at), path].join(' -> '));
      return;
    }
    for (const next of graph.get(path) ?? []) visit(next, [...trail, path]);
    done.add(path);
  };
  for (const path of graph.keys()) visit(path, []);
  assert.deepEqual(cycles, []);
});

test('submodules of a module are layered: none imports, directly or not, one that imports it', () => {
  const submoduleOf = (path: string): string | null => /^src\/[^/]+\/[^/]+(?=\/)/.exec(path)?.[0] ?? null;
  const below = new Map<string, Set<string>>();
  for (const { path, imports } of product) {
    const from = submoduleOf(path);
    if (from === null) continue;
    const targets = below.get(from) ?? new Set();
    below.set(from, targets);
    for (const to of imports.map(submoduleOf))
      if (to !== null && to !== from && moduleOf(to) === moduleOf(from)) targets.add(to);
  }
  const reached = (from: string, seen = new Set<string>()): ReadonlySet<string> => {
    for (const to of below.get(from) ?? []) if (!seen.has(to)) reached(to, seen.add(to));
    return seen;
  };
  assert.ok(below.size > 20, `only ${below.size} submodules`);
  const circles = [...below.keys()].filter((submodule) => reached(submodule).has(submodule));
  assert.deepEqual(circles, []);
});

test('only dispatch sends requests to servers: the rest of the gateway has no port with `call`', () => {
  const gateway = product.filter(({ path }) => path.startsWith('src/gateway/'));
  const sends = gateway.filter(({ text }) => /[uU]pstreams\??\s*\??\.call\(/.test(stripComments(text)));
  assert.deepEqual(
    sends.map(({ path }) => path),
    ['src/gateway/dispatch/dispatch.ts'],
  );
  // The gateway is given the two halves of the port: `ServerCalls` of dispatch, and `KnownServers`, which has no `call`.
  const port = gateway.filter(({ text }) => /\bUpstreams\b[^;]*} from '[./]+\/model\/ports\.ts'/.test(text));
  assert.deepEqual(port.map(({ path }) => path).sort(), [
    'src/gateway/dispatch/dispatch.ts',
    'src/gateway/known-servers.ts',
  ]);
});

test('only policies decide what a caller may have: no other file of the gateway asks for rights, filters, pins or headers', () => {
  const gateway = product.filter(
    ({ path }) => path.startsWith('src/gateway/') && !path.startsWith('src/gateway/policy/'),
  );
  const checks =
    /\b(?:mayUse|filterAllows|filtersAny|whyWithheld|paramHeadersFault|isBlocked|isClosed|callsPerMinute)\b|\bprincipal\.servers\b|\bcatalog\.withheld\b/;
  assert.deepEqual(
    gateway
      .filter(({ text }) => checks.test(stripComments(text)))
      .map(({ path }) => path)
      .sort(),
    // The pins of the operator, which the policy `approved` reads.
    ['src/gateway/drift/guards.ts'],
  );
  const policies = gateway.filter(({ imports }) =>
    imports.some((path) => /gateway\/policy\/(?:tool-filter|param-headers|rate-limit)\.ts$/.test(path)),
  );
  assert.deepEqual(policies, [], 'other files use the policies only through their list');
});

test('drivers are named only in their folder and in the composition root', () => {
  const wrong = product.filter((source) => !DRIVER_HOMES.test(source.path) && DRIVERS.test(stripComments(source.text)));
  assert.deepEqual(
    wrong.map((source) => source.path),
    [],
  );
});

test('no file imports `node:http` itself, which loads all of undici: http comes from `http/node-http`', () => {
  const loading = /^import (?!type\b)[^;]*from 'node:https?'/m;
  assert.deepEqual(
    product.filter(({ text }) => loading.test(text)).map(({ path }) => path),
    [],
  );
});

test('no file is longer than 400 lines', () => {
  const all = [
    ...['src', 'test', 'scripts', 'bench', 'examples'].map((folder) => `${folder}/**/*.ts`),
    'ui/src/**/*.{ts,tsx,css}',
  ]
    .flatMap((pattern) => globSync(pattern, { cwd: ROOT, exclude: (name) => name === 'node_modules' }))
    .filter((path) => path !== CLIENT_OF_CONSOLE);
  assert.ok(all.includes('ui/src/app.tsx') && all.includes('ui/src/style.css'));
  const long = all
    .map((path) => ({ path, lines: readFileSync(join(ROOT, path), 'utf8').split('\n').length - 1 }))
    .filter(({ lines }) => lines > MAX_LINES);
  assert.deepEqual(long, []);
});

/** Names and bodies of the interfaces of a file. */
function interfacesOf({ text }: Source): readonly (readonly [name: string, body: string])[] {
  return [...text.matchAll(/^(?:export )?interface (\w+)[^{]*\{([\s\S]*?)^\}/gm)].map((m) => [m[1]!, m[2]!]);
}

test('no two files declare an interface of one name', () => {
  const names = product.flatMap((source) => interfacesOf(source).map(([name]) => name));
  assert.ok(names.length > 500, 'the interfaces were found');
  assert.deepEqual(
    names.filter((name, i) => names.indexOf(name) !== i),
    [],
  );
});

test('a `Deps` type gives references: it has at most three functions', () => {
  const found: Record<string, number> = {};
  for (const source of product) {
    for (const [name, body] of interfacesOf(source)) {
      if (!name.endsWith('Deps')) continue;
      const functions = body.match(/^ {2}(?:readonly )?\w+\??(?:\(|: (?:\(|null \| \(|\(\())/gm) ?? [];
      if (functions.length > 3) found[name] = functions.length;
    }
  }
  assert.deepEqual(found, {});
});

test('folders and files are named by the rules', () => {
  const banned = /(^|\/)(utils?|common|helpers?|misc)(\/|\.ts$)/;
  const badNames = sources.filter((source) => banned.test(source.path) || /[A-Z]/.test(source.path.slice(4)));
  assert.deepEqual(
    badNames.map((source) => source.path),
    [],
  );
  const words = /\bexport (?:abstract )?class \w*(Manager|Service|Helper|Util|Impl|Base)\b/;
  // The public name of seed row S2.38, kept for programs that embed Trunkline.
  const seeds = /\bexport class SessionManager\b/;
  const badClasses = product.filter((source) => words.test(source.text) && !seeds.test(source.text));
  assert.deepEqual(
    badClasses.map((source) => source.path),
    [],
  );
});

function stripComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/^\s*\/\/.*$/gm, '');
}

test('every source file that the documents name exists', () => {
  const documents = [...globSync('docs/**/*.md', { cwd: ROOT }), ...globSync('*.md', { cwd: ROOT })];
  const modules = Object.keys(MAY_IMPORT).filter((name) => !name.endsWith('.ts'));
  const named = new RegExp(`\\b(?:${modules.join('|')})/[a-z0-9/-]+\\.ts\\b`, 'g');
  const wrong = documents.flatMap((document) =>
    [...readFileSync(join(ROOT, document), 'utf8').matchAll(named)]
      .filter(([path]) => !existsSync(join(ROOT, 'src', path)))
      .map(([path]) => `${document}: ${path}`),
  );
  assert.deepEqual(wrong, []);
});
