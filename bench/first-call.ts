import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { freshMachine, StartedGateway } from '../test/support/fresh-machine.ts';
import { LocalRegistry } from '../test/support/local-registry.ts';
import { packPackage } from '../test/support/packed-package.ts';
import { runProgram } from '../test/support/run-program.ts';

const SERVER = ['npx', '-y', '@modelcontextprotocol/server-everything@2026.8.31'] as const;
const NPX = ['npx', '-y', 'trunkline'] as const;
const GATEWAY_OPTIONS = ['--json', '--port', '0', '--control-port', '0'];

/** The times of a new user, from the command to the answer of the first call. */
export interface FirstCall {
  readonly way: string;
  /** With nothing in npm's cache. */
  readonly coldMs: readonly number[];
  readonly warmMs: readonly number[];
}

type Program = readonly [string, ...string[]];

/** A machine that has only Node and npm. */
interface Machine {
  readonly cwd: string;
  readonly env: Record<string, string>;
}

/** Each function returns the time in milliseconds. */
const WAYS = {
  [SERVER.join(' ')]: callServer,
  [[...NPX, '--', ...SERVER].join(' ')]: (machine: Machine) => callThrough(machine, NPX),
  [['trunkline', '--', ...SERVER].join(' ')]: async (machine: Machine) => {
    await run(machine, ['npm', 'install', '-g', '--prefix', machine.cwd, 'trunkline']);
    return callThrough(machine, [join(machine.cwd, 'bin/trunkline')]);
  },
  [[...NPX, '--version'].join(' ')]: async (machine: Machine) => {
    const begun = performance.now();
    await run(machine, [...NPX, '--version']);
    return performance.now() - begun;
  },
};

/**
 * Calls a tool of a server from npm with the SDK's client, in this order: at the server alone, through `npx trunkline`, and
 * through an installed trunkline, without the time to install it; then runs `npx trunkline --version`, which starts and calls
 * nothing. The ways take turns, each with its own home folder. npm gets trunkline from a registry on this machine, and other
 * packages from the registry that this machine uses.
 */
export async function measureFirstCalls(rounds: number): Promise<FirstCall[]> {
  // A cache of npm is on a disk; the temporary folder of proofs is not.
  const folder = await mkdtemp(join(process.env['TRUNKLINE_PROVE_DIR'] ?? tmpdir(), 'trunkline-bench-first-'));
  const found = new Map<string, { readonly cold: number; readonly warm: number }[]>();
  try {
    const tarball = await packPackage(folder);
    for (let round = 0; round < rounds; round++) {
      for (const [way, firstCall] of Object.entries(WAYS)) {
        const cwd = await mkdtemp(join(folder, 'home-'));
        const env = freshMachine(cwd, process.execPath);
        await using registry = await LocalRegistry.start(tarball, env['npm_config_registry']!);
        const machine = {
          cwd,
          env: { ...env, npm_config_registry: registry.url, npm_config_update_notifier: 'false' },
        };
        const times = { cold: await firstCall(machine), warm: await firstCall(machine) };
        found.set(way, [...(found.get(way) ?? []), times]);
      }
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  return [...found].map(([way, times]) => ({
    way,
    coldMs: times.map(({ cold }) => cold),
    warmMs: times.map(({ warm }) => warm),
  }));
}

async function run(machine: Machine, command: Program): Promise<void> {
  const { code, err } = await runProgram(command, machine);
  if (code !== 0) throw new Error(`${command.join(' ')}: ${err}`);
}

async function callServer(machine: Machine): Promise<number> {
  const begun = performance.now();
  const [command, ...args] = SERVER;
  return answeredAfter(
    begun,
    new StdioClientTransport({ command, args: [...args], ...machine, stderr: 'ignore' }),
    'echo',
  );
}

async function callThrough(machine: Machine, program: Program): Promise<number> {
  const begun = performance.now();
  await using gateway = await StartedGateway.start([...program, ...GATEWAY_OPTIONS, '--', ...SERVER], machine);
  const transport = new StreamableHTTPClientTransport(new URL(gateway.mcpUrl));
  return await answeredAfter(begun, transport as Transport, 'everything__echo');
}

async function answeredAfter(begun: number, transport: Transport, name: string): Promise<number> {
  const client = new Client({ name: 'bench', version: '1' });
  await client.connect(transport);
  try {
    const { content } = await client.callTool({ name, arguments: { message: 'first' } });
    const ms = performance.now() - begun;
    assert.deepEqual(content, [{ type: 'text', text: 'Echo: first' }]);
    return ms;
  } finally {
    await client.close();
  }
}
