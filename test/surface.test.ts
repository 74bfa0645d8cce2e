import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { EXIT } from '../src/cli/exit-code.ts';
import { runProgram } from '../src/cli/program.ts';
import * as client from '../src/client.ts';
import * as compat from '../src/compat/index.ts';
import { RouteTable } from '../src/http/listener/route-table.ts';
import * as api from '../src/index.ts';
import { textResult, textServer, tool } from './support/text-server.ts';

const ROOT = resolve(import.meta.dirname, '..');
const PINS = resolve(import.meta.dirname, 'surface.json');
const UPDATE = process.env['TRUNKLINE_UPDATE_SURFACE'] === '1';

/**
 * The surface on which other programs and people rely, as `test/surface.json` pins it. A removal or a new name breaks
 * them: it needs a decision, an entry in CHANGELOG.md and, later, a major version. Additions are free, but stay.
 */
type Surface = Record<string, readonly string[] | Readonly<Record<string, number | string>>>;

const pinned = UPDATE ? {} : (JSON.parse(readFileSync(PINS, 'utf8')) as Surface);
const found: Surface = {};

function pin(part: string, value: Surface[string]): void {
  found[part] = value;
  if (UPDATE) return;
  const how =
    `The public surface has changed: ${part}. If this is intended, record it in CHANGELOG.md and run\n` +
    '  TRUNKLINE_UPDATE_SURFACE=1 npm test -- test/surface.test.ts\n' +
    'and review the difference of test/surface.json: each removed entry breaks programs that use it.';
  assert.deepEqual(value, pinned[part], how);
}

test('exports of the package: values', () => {
  pin('exports.values', Object.keys(api).sort());
  pin('exports.client', Object.keys(client).sort());
  pin('exports.compat', Object.keys(compat).sort());
});

test('exports of the package: types', () => {
  pin('exports.types', exportedTypes('src/index.ts'));
  pin('exports.compat.types', exportedTypes('src/compat/index.ts'));
});

function exportedTypes(file: string): readonly string[] {
  const source = readFileSync(resolve(ROOT, file), 'utf8').replaceAll(/\/\*[\s\S]*?\*\//g, '');
  const types = new Set<string>();
  for (const [, all, names] of source.matchAll(/export (type )?\{([^}]*)\}/g)) {
    for (const name of names!.split(',')) {
      const [, marked, , exported] = /^\s*(type )?(?:(\w+) as )?(\w+)\s*$/.exec(name) ?? [];
      if (exported !== undefined && (all !== undefined || marked !== undefined)) types.add(exported);
    }
  }
  assert.ok(types.size > 25, `only ${types.size} types found in ${file}`);
  return [...types].sort();
}

test('entry points and programs of the package', () => {
  const { exports, bin, engines } = JSON.parse(readFileSync(resolve(ROOT, 'package.json'), 'utf8')) as {
    exports: object;
    bin: Record<string, string>;
    engines: Record<string, string>;
  };
  pin('package.exports', Object.keys(exports).sort());
  pin('package.bin', bin);
  pin('package.engines', engines);
});

test('error names and their JSON-RPC codes', () => {
  const codes = Object.entries(api.ERROR_CATALOGUE).map(([name, { rpc }]) => [name, rpc] as const);
  pin('errors', Object.fromEntries(codes.sort(([a], [b]) => (a < b ? -1 : 1))));
});

test('commands and flags, with their environment variables, and exit codes', async () => {
  const help = async (...words: readonly string[]): Promise<string> => {
    let text = '';
    const out = (more: string): void => {
      text += more;
    };
    await runProgram([...words, '--help'], { out, err: out, env: {}, cwd: ROOT, version: '0.0.0', ask: null });
    return text;
  };
  const main = await help();
  const section = /Commands:\n([\s\S]*?)(?:\n\n|$)/.exec(main)?.[1] ?? '';
  const commands = [...section.matchAll(/^ {2}([a-z]+)/gm)].map(([, name]) => name!).filter((name) => name !== 'help');
  assert.ok(commands.length >= 5, `only ${commands.join()}`);
  pin('commands', commands.sort());
  for (const command of ['', ...commands]) {
    const text = command === '' ? main : await help(command);
    const flags = [...text.matchAll(/^ +(--[a-z-]+)/gm)].map(([, flag]) => flag!);
    const variables = [...text.matchAll(/env:\s+(TRUNKLINE_[A-Z_]+)/g)].map(([, variable]) => variable!);
    pin(`flags ${command || '(none)'}`, [...new Set([...flags, ...variables])].sort());
  }
  pin('exit codes', EXIT);
});

test('paths of both listeners, and the metrics', async () => {
  const tables = new Map<RouteTable, string[]>();
  const { add } = RouteTable.prototype;
  RouteTable.prototype.add = function (path, handlers, options) {
    const routes = tables.get(this) ?? [];
    tables.set(this, routes);
    for (const method of Object.keys(handlers)) routes.push(`${path} ${method}`);
    add.call(this, path, handlers, options);
  };
  const server = textServer({ tools: () => [tool('t')], call: () => textResult('') });
  await using gateway = await api.createGateway({ servers: { one: server } });
  await gateway.ready();
  await gateway.callTool('one__t');
  const { controlUrl, controlToken } = await gateway.listen({ port: 0, controlPort: 0 }).finally(() => {
    RouteTable.prototype.add = add;
  });
  const sides = [...tables.values()];
  assert.equal(sides.length, 2);
  const mcp = sides.find((routes) => routes.includes('/mcp POST'));
  const control = sides.find((routes) => routes !== mcp);
  pin('paths of the MCP listener', [...new Set(mcp)].sort());
  pin('paths of the control listener', [...new Set(control)].sort());
  const headers = { authorization: `Bearer ${controlToken}` };
  const text = await (await fetch(`${controlUrl}/metrics`, { headers })).text();
  const metrics = [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name, type]) => [name!, type!] as const);
  assert.ok(metrics.length > 5, text);
  pin('metrics', Object.fromEntries(metrics.sort(([a], [b]) => (a < b ? -1 : 1))));
});

test('each pinned part of the surface still exists', () => {
  if (UPDATE) writeFileSync(PINS, `${JSON.stringify(found, null, 2)}\n`);
  else assert.deepEqual(Object.keys(found).sort(), Object.keys(pinned).sort());
});
