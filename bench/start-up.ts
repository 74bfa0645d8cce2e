import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { cpuUs } from './load/process-usage.ts';
import { STDIO_SERVERS } from './sizes.ts';
import { median } from './statistics.ts';
import type { Scene } from './targets/target.ts';
import { launch } from './targets/trunkline.ts';
import { untilList } from './until-list.ts';

const TOOLS = 2;
const PATIENCE_MS = 60_000;

/** Start with 20 stdio servers configured. Times in ms; `listeningCpuMs` is CPU time, which other load does not stretch. */
export interface StartUp {
  readonly state: 'cold' | 'catalogues known';
  /** From the start of the process to the line that says it listens, seen from outside. */
  readonly listeningMs: number;
  /** The same as the process itself measures it. */
  readonly readyMs: number;
  readonly listeningCpuMs: number;
  /** From listening to the first whole `tools/list`, handshake of the client included. */
  readonly listMs: number;
}

/** In each round, starts the gateway cold and then again with the stored state. */
export async function measureStartUp(scene: Scene, rounds: number): Promise<StartUp[]> {
  const cold: StartUp[] = [];
  const known: StartUp[] = [];
  for (let round = 0; round < rounds; round++) {
    const folder = await mkdtemp(join(tmpdir(), 'trunkline-bench-start-'));
    cold.push(await startOnce(scene, folder, 'cold'));
    known.push(await startOnce(scene, folder, 'catalogues known'));
    await rm(folder, { recursive: true, force: true });
  }
  return [cold, known].map(medianOf);
}

async function startOnce(scene: Scene, folder: string, state: StartUp['state']): Promise<StartUp> {
  const [command, ...args] = scene.stdioCommand;
  const servers = Array.from({ length: STDIO_SERVERS }, (_, n) => [`s${n}`, { command, args }]);
  const begunAt = performance.now();
  const { child, facts } = await launch(folder, Object.fromEntries(servers));
  const listeningMs = performance.now() - begunAt;
  const listeningCpuMs = cpuUs([child.pid]) / 1000;
  try {
    const listMs = await untilList(facts.mcpUrl, STDIO_SERVERS * TOOLS, PATIENCE_MS);
    // The gateway writes the catalogues in the background; the next start needs them.
    await delay(500);
    return { state, listeningMs, readyMs: facts.readyMs, listeningCpuMs, listMs };
  } finally {
    await child.stop();
  }
}

function medianOf(starts: readonly StartUp[]): StartUp {
  const of = (value: (start: StartUp) => number) => median(starts.map(value));
  return {
    state: starts[0]!.state,
    listeningMs: of((start) => start.listeningMs),
    readyMs: of((start) => start.readyMs),
    listeningCpuMs: of((start) => start.listeningCpuMs),
    listMs: of((start) => start.listMs),
  };
}
