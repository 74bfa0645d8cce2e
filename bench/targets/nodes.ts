import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { family } from '../load/process-usage.ts';
import { SERVER_SCRIPTS } from '../sizes.ts';
import { untilList } from '../until-list.ts';
import { Child, freePort } from './child.ts';
import type { Behind, Scene, Target } from './target.ts';
import { COLLECTS, type Launched, launch, serversOf, TOOL_PREFIX } from './trunkline.ts';

const SECRET = 'a secret of the benchmark, of no worth to anybody';
const PATIENCE_MS = 30_000;

/** Which of the two nodes has the server in its file, and at which of them the load arrives. */
type Where = { readonly instances: 'both' | 'the second'; readonly loaded: 'first' | 'second' | 'both' };

/**
 * Two nodes with a nats-server of their own. The CPU time and memory of the nodes that handle the calls count; those of
 * nats-server are shown separately.
 */
function twoNodes(name: string, { instances, loaded }: Where): Target {
  return {
    name,
    named: true,
    maxSessions: Number.POSITIVE_INFINITY,
    canServe: (behind) => behind !== 'fleet',
    async start(scene, behind) {
      const pair = await pairOf(scene, behind, instances);
      const [first, second] = pair.urls;
      const urls = { first: [first], second: [second], both: [first, second] }[loaded];
      const serving = instances === 'both' ? pair.nodes.filter((_, at) => urls.includes(pair.urls[at]!)) : pair.nodes;
      return {
        url: urls[0]!,
        alsoUrls: urls.slice(1),
        toolPrefix: TOOL_PREFIX,
        pids: () => serving.flatMap(({ pid }) => family(pid, SERVER_SCRIPTS)),
        besidePids: () => [pair.nats.pid],
        stop: () => pair.left(),
      };
    },
  };
}

export const nodes: readonly Target[] = [
  twoNodes('node a of two', { instances: 'both', loaded: 'first' }),
  twoNodes('node b of two', { instances: 'both', loaded: 'second' }),
  twoNodes('both nodes', { instances: 'both', loaded: 'both' }),
  twoNodes('across nodes', { instances: 'the second', loaded: 'first' }),
];

interface Pair {
  readonly nats: Child;
  readonly nodes: readonly Child[];
  readonly urls: readonly [string, string];
  users: number;
  /** Ends the use by one row; the last row stops the pair. */
  left(): Promise<void>;
}

/** The rows of one scenario that use the same two nodes share them. */
const pairs = new Map<string, Promise<Pair>>();

async function pairOf(scene: Scene, behind: Behind, instances: Where['instances']): Promise<Pair> {
  const name = `${behind} ${instances}`;
  const starting = pairs.get(name) ?? startPair(scene, behind, instances, () => pairs.delete(name));
  pairs.set(name, starting);
  const pair = await starting;
  pair.users++;
  return pair;
}

async function startPair(
  scene: Scene,
  behind: Behind,
  instances: Where['instances'],
  ended: () => void,
): Promise<Pair> {
  const folder = await mkdtemp(join(tmpdir(), 'trunkline-bench-nodes-'));
  const port = await freePort();
  const config = join(folder, 'nats.conf');
  await writeFile(config, `listen: "127.0.0.1:${port}"\njetstream { store_dir: "${join(folder, 'nats')}" }\n`);
  const nats = new Child(['nats-server', '-c', config]);
  const started: Launched[] = [];
  const end = async (): Promise<void> => {
    ended();
    await Promise.all(started.map(({ child }) => child.stop()));
    await nats.stop();
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await nats.listening(port);
    const servers = serversOf(scene, behind);
    for (const node of ['a', 'b']) {
      const own = await mkdtemp(join(folder, `${node}-`));
      const cluster = { nats: `nats://127.0.0.1:${port}`, node, secret: SECRET };
      const its = instances === 'both' || node === 'b' ? servers : {};
      started.push(await launch(own, its, { $schema: 'trunkline', cluster }, [COLLECTS]));
    }
    for (const { facts } of started) {
      await untilReady(facts.mcpUrl);
      await untilList(facts.mcpUrl, 5, PATIENCE_MS);
    }
  } catch (error) {
    await end();
    throw error;
  }
  const pair: Pair = {
    nats,
    nodes: started.map(({ child }) => child),
    urls: started.map(({ facts }) => facts.mcpUrl) as [string, string],
    users: 0,
    async left() {
      if (--pair.users === 0) await end();
    },
  };
  return pair;
}

export async function untilReady(mcpUrl: string): Promise<void> {
  const end = performance.now() + PATIENCE_MS;
  for (;;) {
    const response = await fetch(new URL('/readyz', mcpUrl));
    const why = await response.text();
    if (response.status === 200) return;
    if (performance.now() > end) throw new Error(`a node is not ready: ${why}`);
    await delay(50);
  }
}
