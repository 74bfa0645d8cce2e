import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { family } from '../load/process-usage.ts';
import { FLEET_SERVERS, SERVER_SCRIPTS } from '../sizes.ts';
import { Child } from './child.ts';
import { serverUrl } from './direct.ts';
import type { Behind, Running, Scene, Target } from './target.ts';

/** The prefix that the aggregate endpoint adds to the tools of the one server. */
export const TOOL_PREFIX = 'up__';
/** An option of Node: the gateway collects garbage on a signal. */
export const COLLECTS = `--import=${new URL('collector.mjs', import.meta.url).href}`;
const BIN = resolve(import.meta.dirname, '../../bin/trunkline.js');

/** Trunkline as built from the checkout: on its aggregate endpoint, or on the endpoint of the one server. */
export function trunkline(endpoint: 'aggregate' | 'server'): Target {
  return {
    name: endpoint === 'aggregate' ? 'trunkline' : 'trunkline/server',
    maxSessions: Number.POSITIVE_INFINITY,
    canServe: (behind) => endpoint === 'aggregate' || behind !== 'fleet',
    start: (scene, behind) => startTrunkline(serversOf(scene, behind), endpoint),
  };
}

export async function startTrunkline(
  mcpServers: object,
  endpoint: 'aggregate' | 'server',
  more: object = {},
): Promise<Running> {
  const folder = await mkdtemp(join(tmpdir(), 'trunkline-bench-'));
  const { child, facts } = await launch(folder, mcpServers, more, [COLLECTS]);
  const single = endpoint === 'server';
  return {
    url: single ? facts.mcpUrl.replace(/\/mcp$/, '/servers/up/mcp') : facts.mcpUrl,
    toolPrefix: single ? '' : TOOL_PREFIX,
    pids: () => family(child.pid, SERVER_SCRIPTS),
    async stop() {
      await child.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

export interface Launched {
  readonly child: Child;
  readonly facts: { readonly mcpUrl: string; readonly readyMs: number };
}

/** Starts the built gateway on the folder, which keeps its file and its state, and waits until it listens. */
export async function launch(
  folder: string,
  mcpServers: object,
  more: object = {},
  nodeOptions: readonly string[] = [],
): Promise<Launched> {
  const file = join(folder, 'trunkline.json');
  await writeFile(file, JSON.stringify({ mcpServers, ...more }));
  const ports = ['--port', '0', '--control-port', '0', '--data-dir', join(folder, 'data')];
  const profile = process.env['BENCH_CPU_PROF'];
  const node = profile === undefined ? [] : ['--cpu-prof', '--cpu-prof-dir', profile];
  const child = new Child([process.execPath, ...node, ...nodeOptions, BIN, '--json', ...ports, file], {
    cwd: folder,
    env: { ...process.env, TRUNKLINE_BUILT: '1' },
  });
  return { child, facts: JSON.parse(await child.firstLine()) };
}

export function serversOf(scene: Scene, behind: Behind): object {
  if (behind === 'stdio') return { up: { command: scene.stdioCommand[0], args: scene.stdioCommand.slice(1) } };
  if (behind !== 'fleet') return { up: { type: 'http', url: serverUrl(scene, behind) } };
  const numbers = Array.from({ length: FLEET_SERVERS }, (_, index) => index);
  return Object.fromEntries(numbers.map((n) => [`s${n}`, { type: 'http', url: `${scene.fleetUrl}/${n}` }]));
}
