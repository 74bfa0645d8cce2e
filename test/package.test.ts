import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { isBuiltin } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { parseAst } from 'rolldown/parseAst';
import { manifest, packPackage } from './support/packed-package.ts';

const ROOT = resolve(import.meta.dirname, '..');
const TSC = join(ROOT, 'node_modules/.bin/tsc');
const work = mkdtempSync(join(tmpdir(), 'trunkline-package-'));
const consumer = join(work, 'consumer');
const installed = join(consumer, 'node_modules/trunkline');
const run = promisify(execFile);

/** `@scope/name/part` belongs to `@scope/name`. */
function packageOf(specifier: string): string {
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/');
}

const PROGRAM = `
import { type AgentClient, createGateway, type Gateway, type GatewayTool, inProcessBytes, type ToolCallResult } from 'trunkline';
import { type LocalTool, bridgeAll } from 'trunkline/compat';

const clock = inProcessBytes((link) => ({
  receive(message) {
    const { id, method } = JSON.parse(new TextDecoder().decode(message)) as { id?: number; method: string };
    const results: Record<string, string> = {
      initialize: '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"clock","version":"1"}}',
      'tools/list': '{"tools":[{"name":"now","inputSchema":{"type":"object"}}]}',
      'tools/call': '{"content":[{"type":"text","text":"12:00"}],"structuredContent":{"at":12345678901234567890}}',
    };
    const result = results[method];
    if (id === undefined) return;
    if (result !== undefined) link.deliver('{"jsonrpc":"2.0","id":' + id + ',"result":' + result + '}');
    else link.deliver('{"jsonrpc":"2.0","id":' + id + ',"error":{"code":-32601,"message":"no"}}');
  },
  close() {},
}));

await using gateway: Gateway = await createGateway({
  servers: { clock, later: { command: 'x', args: ['y', 1], start: 'lazy' } },
});
await gateway.ready({ servers: ['clock'] });
const tools: readonly GatewayTool[] = await gateway.tools();
const bridged: readonly LocalTool[] = await bridgeAll(gateway);
const client: AgentClient | null = gateway.client('clock');
const result: ToolCallResult & { readonly raw: string } = await gateway.callTool({ server: 'clock', tool: 'now' });
const text: string | undefined = result.content[0]?.text;
console.log([tools[0]?.name, bridged[0]?.name, client?.serverInfo?.name, text, result.raw.includes('12345678901234567890')].join(' '));
// @ts-expect-error: 'evr' is no isolation
createGateway({ servers: { a: { command: 'x', isolation: 'evr' } } }).catch(() => {});
`;

const CLIENT = `
import { GatewayError, type ToolCallResult } from 'trunkline';
import { type MCPToolReply, type ToolClient, type ToolClientOptions, subjectExecute } from 'trunkline/client';
import type { Router } from 'trunkline/compat';
import type { Router as OwnRouter } from 'trunkline';

export const subject: string = subjectExecute('a');
export type Made = ToolClient<Headers> | ToolClientOptions<Headers>;
export const one: (router: OwnRouter) => Router = (router) => router;
export type Reply = [MCPToolReply, ToolCallResult, GatewayError];
`;

/** Builds, packs and unpacks the package as npm would, with the dependencies of this checkout beside it. No network. */
before(async () => {
  const tarball = await packPackage(work);
  mkdirSync(installed, { recursive: true });
  await run('tar', ['-xzf', tarball, '-C', installed, '--strip-components=1']);
  for (const name of [...Object.keys(manifest.dependencies), '@types/node', 'undici-types']) {
    const link = join(consumer, 'node_modules', name);
    mkdirSync(dirname(link), { recursive: true });
    symlinkSync(join(ROOT, 'node_modules', name), link);
  }
  writeFileSync(join(consumer, 'package.json'), '{"type":"module"}');
  writeFileSync(join(consumer, 'main.ts'), PROGRAM);
  writeFileSync(join(consumer, 'client.ts'), CLIENT);
});

after(() => rmSync(work, { recursive: true, force: true }));

/** The modules of the package that these import, directly or indirectly, without dynamic imports. */
function loadedAtStart(...from: string[]): Set<string> {
  const found = new Set<string>();
  const load = (module: string): void => {
    if (found.has(module)) return;
    found.add(module);
    const text = readFileSync(join(installed, 'dist', module), 'utf8');
    for (const [, path] of text.matchAll(/^(?:import|export)\b[^'"\n]*["'](\.[^'"]+)["']/gm)) {
      load(join(dirname(module), path!));
    }
  };
  for (const module of from) load(module);
  return found;
}

test('the packed package has what it needs and nothing else', () => {
  const files = readdirSync(installed, { recursive: true }) as string[];
  for (const entry of ['index.js', 'index.d.ts', 'client.js', 'client.d.ts', 'compat.js', 'compat.d.ts']) {
    assert.ok(files.includes(join('dist', entry)), entry);
  }
  assert.deepEqual(
    files.filter((file) => /\.(test|contract)\.|^src\b|^test\b|node_modules/.test(file)),
    [],
  );
  // Types, too, may name only packages that are installed with it.
  const strangers = files
    .filter((file) => /^dist\/(?!ui\/).*\.(js|d\.ts)$/.test(file))
    .flatMap((file) => {
      // The package also has programs as text, with their own imports; those do not count.
      const { body } = parseAst(readFileSync(join(installed, file), 'utf8'), {
        lang: file.endsWith('.js') ? 'js' : 'dts',
      });
      const named = body.flatMap((one) => ('source' in one && one.source !== null ? [one.source.value] : []));
      return named
        .filter((name) => !/^\.\.?\//.test(name) && !isBuiltin(name) && !(packageOf(name) in manifest.dependencies))
        .map((name) => `${file}: ${name}`);
    });
  assert.deepEqual(strangers, []);
  const modules = loadedAtStart('main.js', 'parts/serve.js');
  assert.ok(
    modules.size > 5 && modules.size < 40,
    `${modules.size} modules: each of them slows down each program start`,
  );
  const declarations = files.filter((file) => file.endsWith('.d.ts'));
  assert.ok(declarations.length <= 5, `one for each entry, and shared ones: ${declarations.join(' ')}`);
});

test('every link in a document of the package leads to a file of the package', () => {
  const documents = (readdirSync(installed, { recursive: true }) as string[]).filter((file) => file.endsWith('.md'));
  assert.ok(documents.includes('README.md') && documents.length > 20, documents.join(' '));
  const dead = documents.flatMap((file) => {
    const text = readFileSync(join(installed, file), 'utf8').replace(/```[\s\S]*?```|`[^`\n]*`/g, '');
    return [...text.matchAll(/\]\(([^)#\s]+)[^)]*\)/g)]
      .filter(([, link]) => !/^\w+:/.test(link!) && !existsSync(join(installed, dirname(file), link!)))
      .map(([, link]) => `${file}: ${link}`);
  });
  assert.deepEqual(dead, []);
});

for (const [module, moduleResolution] of [
  ['nodenext', 'nodenext'],
  ['esnext', 'bundler'],
]) {
  test(`its types compile in a strict program with the resolution ${moduleResolution}, libraries checked as well`, async () => {
    const options = {
      target: 'es2024',
      lib: ['es2024', 'esnext.disposable'],
      module,
      moduleResolution,
      types: ['node'],
      strict: true,
      exactOptionalPropertyTypes: true,
      skipLibCheck: false,
      noEmit: true,
    };
    const files = ['main.ts', 'client.ts'];
    writeFileSync(join(consumer, 'tsconfig.json'), JSON.stringify({ compilerOptions: options, files }));
    const checked = await run(TSC, ['-p', consumer]).catch((error: { stdout: string }) => error);
    assert.equal(checked.stdout, '');
  });
}

test('the program and the command run with the package', async () => {
  const { stdout } = await run(process.execPath, ['main.ts'], { cwd: consumer, timeout: 30_000 });
  assert.equal(stdout, 'clock__now mcp__clock__now clock 12:00 true\n');
  const client =
    "import { subjectExecute, ToolClient } from 'trunkline/client'; console.log(subjectExecute('a'), ToolClient.name)";
  const used = await run(process.execPath, ['--input-type=module', '-e', client], { cwd: consumer, timeout: 30_000 });
  assert.equal(used.stdout, 'mcp.a.execute ToolClient\n');
  const both = `
    import { GatewayError, createGateway } from 'trunkline';
    import { callBridgedTool } from 'trunkline/compat';
    await using gateway = await createGateway();
    await callBridgedTool(gateway, 'x').catch((error) => console.log(error instanceof GatewayError, error.code));`;
  const moved = await run(process.execPath, ['--input-type=module', '-e', both], { cwd: consumer, timeout: 30_000 });
  assert.equal(moved.stdout, 'true INVALID_PARAMS\n', 'both entries share the classes of errors');
  const bin = join(installed, 'bin/trunkline.js');
  const version = await run(process.execPath, [bin, '--version'], { cwd: consumer, timeout: 30_000 });
  assert.equal(version.stdout.trim(), manifest.version);
});
