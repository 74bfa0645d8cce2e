import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { family } from '../load/process-usage.ts';
import { SERVER_SCRIPTS } from '../sizes.ts';
import { Child, freePort } from './child.ts';
import type { Scene, Target } from './target.ts';

const FOLDER = resolve(import.meta.dirname, '..');

type CommandOf = (scene: Scene, port: number) => readonly string[];

const COMMANDS: Readonly<Record<string, CommandOf>> = {
  'mcp-proxy': ({ stdioCommand }, port) => [
    'mcp-proxy/dist/bin/mcp-proxy.mjs',
    '--host',
    '127.0.0.1',
    '--port',
    String(port),
    '--server',
    'stream',
    '--',
    ...stdioCommand,
  ],
  supergateway: ({ stdioCommand }, port) => [
    'supergateway/dist/index.js',
    '--stdio',
    stdioCommand.join(' '),
    '--outputTransport',
    'streamableHttp',
    '--stateful',
    '--logLevel',
    'none',
    '--port',
    String(port),
  ],
};

/** Two gateways of npm, from `bench/package.json`. Both only run local commands, so their servers use stdio. */
export const npmGateways: readonly Target[] = Object.entries(COMMANDS).map(([name, commandOf]) => ({
  name,
  maxSessions: 1,
  canServe: (behind) => behind === 'stdio',
  async start(scene) {
    await installed();
    const port = await freePort();
    const [script, ...args] = commandOf(scene, port);
    const child = new Child([process.execPath, join(FOLDER, 'node_modules', script!), ...args]);
    await child.listening(port);
    return {
      url: `http://127.0.0.1:${port}/mcp`,
      toolPrefix: '',
      pids: () => family(child.pid, SERVER_SCRIPTS),
      stop: () => child.stop(),
    };
  },
}));

let installation: Promise<void> | null = null;

/** Installs the peers when a run needs them for the first time, exactly as their own lock file says. */
function installed(): Promise<void> {
  installation ??= existsSync(join(FOLDER, 'node_modules')) ? Promise.resolve() : install();
  return installation;
}

async function install(): Promise<void> {
  console.error('bench: installing the peers (npm ci in bench/)');
  const npm = new Child(['npm', 'ci', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: FOLDER });
  const code = await new Promise((resolve) => npm.process.once('exit', resolve));
  if (code !== 0) throw new Error(`npm ci in bench/ failed: ${npm.stderr}`);
}
