import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, type TestContext, test } from 'node:test';
import { freshMachine, nodeOf, StartedGateway } from '../support/fresh-machine.ts';
import { LocalRegistry } from '../support/local-registry.ts';
import { packPackage } from '../support/packed-package.ts';
import { runProgram } from '../support/run-program.ts';
import { WireClient } from '../support/wire-client.ts';

const OLDEST_NODE = '22.19.0';
const TOO_OLD_NODE = '20.20.2';
const SERVER = '@modelcontextprotocol/server-everything@2026.8.31';
const PORTS = ['--port', '0', '--control-port', '0'];
const work = mkdtempSync(join(tmpdir(), 'trunkline-from-nothing-'));
/** As in README.md. */
const NPX = ['npx', '-y', 'trunkline'] as const;
let registry: LocalRegistry;

before(async () => {
  const { npm_config_registry: elsewhere } = freshMachine(join(work, 'asked'), process.execPath);
  registry = await LocalRegistry.start(await packPackage(work), elsewhere!);
});
after(async () => {
  await registry[Symbol.asyncDispose]();
  rmSync(work, { recursive: true, force: true });
});

function machine(name: string, node: string): { readonly cwd: string; readonly env: Readonly<Record<string, string>> } {
  const cwd = join(work, name);
  mkdirSync(cwd);
  return { cwd, env: { ...freshMachine(cwd, node), npm_config_registry: registry.url } };
}

/** The program that `npm install -g` gives. */
async function install(options: ReturnType<typeof machine>): Promise<string> {
  const prefix = join(options.cwd, '.global');
  const { code, err } = await runProgram(['npm', 'install', '-g', '--prefix', prefix, 'trunkline'], options);
  assert.equal(code, 0, err);
  assert.doesNotMatch(err, /EBADENGINE|deprecated/);
  return join(prefix, 'bin/trunkline');
}

/** From the command to the answer of the first call, in ms. */
async function firstCall(
  options: ReturnType<typeof machine>,
  command: readonly [string, ...string[]],
): Promise<number> {
  const begun = performance.now();
  await using gateway = await StartedGateway.start(
    [...command, '--json', ...PORTS, '--', 'npx', '-y', SERVER],
    options,
  );
  const client = await WireClient.open(gateway.mcpUrl);
  assert.equal(await client.callText('everything__echo', { message: 'first' }), 'Echo: first');
  return performance.now() - begun;
}

test('only Node and npm: one npx command to the first call, then once more, then installed', async (t) => {
  const options = machine('nothing', process.execPath);
  const cold = await firstCall(options, NPX);
  const warm = await firstCall(options, NPX);
  const installed = await firstCall(options, [await install(options)]);
  say(t, `to the first call: npx cold ${cold}, npx warm ${warm}, installed ${installed}`);
});

test(`Node ${OLDEST_NODE} runs it as installed, and neither npm nor Node warns`, async () => {
  const options = machine('oldest', await nodeOf(OLDEST_NODE));
  const trunkline = await install(options);
  await firstCall(options, [trunkline]);
  const { code, err } = await runProgram([trunkline, 'tools', '--data-dir', options.cwd], options);
  assert.equal(code, 1);
  assert.match(err, /^trunkline: no configuration file/);
});

test(`on Node ${TOO_OLD_NODE} the error message names a command that works`, async () => {
  const options = machine('old', await nodeOf(TOO_OLD_NODE));
  const refused = await runProgram([...NPX, '--version'], options);
  assert.equal(refused.code, 1);
  const command = /^ {2}use: (npx .*)$/m.exec(refused.err)?.[1];
  assert.ok(command !== undefined, refused.err);
  const words = command.split(' ') as [string, ...string[]];
  assert.match((await runProgram([...words, '--version'], options)).out, /^\d+\.\d+\.\d+\n$/);
});

test('from the files of clients to a call: import, link, all with npx', async (t) => {
  const options = machine('clients', process.execPath);
  const cursor = join(options.cwd, '.cursor/mcp.json');
  mkdirSync(dirname(cursor));
  writeFileSync(cursor, JSON.stringify({ mcpServers: { every: { command: 'npx', args: ['-y', SERVER] } } }));
  const begun = performance.now();
  const imported = await runProgram([...NPX, 'import', '--yes'], options);
  assert.equal(imported.code, 0, imported.err);
  await using _gateway = await StartedGateway.start([...NPX, '--json', ...PORTS], options);
  const linked = await runProgram([...NPX, 'link', 'cursor', '--yes', '--replace'], options);
  assert.equal(linked.code, 0, linked.err);
  const { url } = JSON.parse(readFileSync(cursor, 'utf8')).mcpServers.tl;
  const client = await WireClient.open(url);
  assert.equal(await client.callText('every__echo', { message: 'linked' }), 'Echo: linked');
  say(t, `import, start, link and a call: ${performance.now() - begun}`);
});

function say(t: TestContext, text: string): void {
  t.diagnostic(text.replace(/\d+\.\d+/g, (ms) => `${Math.round(Number(ms))} ms`));
}
