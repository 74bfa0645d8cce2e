import { mkdtemp, rm } from 'node:fs/promises';
import { freemem, loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { heldKiB } from '../load/held-memory.ts';
import { cpuUs, rssKiB } from '../load/process-usage.ts';
import { Child } from '../targets/child.ts';
import { untilReady } from '../targets/nodes.ts';
import { COLLECTS, type Launched, launch } from '../targets/trunkline.ts';
import { BusMeter, type BySubject, bytesOf } from './bus-meter.ts';
import { type Kind, ListeningClient } from './client.ts';
import type { NodesFunctions } from './nodes.ts';
import type { SessionsFunctions } from './sessions.ts';
import {
  definitions,
  LIVE,
  NODES_EACH_PROCESS,
  OWN_EACH,
  ownNames,
  SECRET,
  type Sizes,
  sharedNames,
  TOOLS_EACH,
  urlOf,
} from './sizes.ts';
import { Worker } from './worker.ts';

const UPSTREAMS = 4;
const IDLE_MS = 10_000;
const RESTARTS = 3;
const CHANGE_MS = 5_000;
const QUIET_MS = 90_000;
/** For each size: until all nodes are started, and then until the bus is quiet. */
const START_MS = 1_800_000;
/** For a process with several nodes. */
const HEAP_MIB = 3_072;
/** Per second, in a cluster whose size has not been measured yet: twice the traffic of heartbeats. */
const QUIET_BYTES_PER_PAIR = 1_500;
const QUIET_BYTES = 20_000;
const LIST_MS = 60_000;
/** Sizes at which costs are measured, to say what more nodes cost. */
const STEPS = [10, 20];
/** The share of free memory that nodes may fill with the sessions of other nodes. */
const MOST_OF_MEMORY = 0.3;

export interface AtSize {
  readonly nodes: number;
  /** From an empty cluster, all earlier steps included. */
  readonly startBytes: number;
  readonly startMessages: number;
  readonly startMs: number;
  readonly idleBytesPerSecond: number;
  readonly idleMessagesPerSecond: number;
  /** Shares of one core. */
  readonly idleCpuEach: number;
  readonly idleCpuNats: number;
  readonly ownRestartBytes: number;
  readonly sharedRestartBytes: number;
  readonly changes: { readonly own: Record<Kind, number>; readonly shared: Record<Kind, number> };
  readonly quiet: boolean;
  readonly load: number;
}

export interface Memory {
  readonly sessions: number;
  readonly heldMiB: number;
  readonly rssMiB: number;
}

export interface NewNode {
  readonly readyMs: number;
  /** Time until the first list, from `readyMs` on, and how many tools it had. */
  readonly firstListMs: number;
  readonly firstListTools: number;
  readonly tools: number;
  readonly completeMs: number;
  readonly changes: Record<Kind, number>;
  readonly bytes: number;
  readonly heldMiB: number;
  /** CPU time until its list was complete. */
  readonly cpuMs: number;
  readonly cpuMsOfEachOther: number;
  readonly load: number;
}

export interface ClusterScale {
  readonly sizes: Sizes;
  readonly memory: readonly Memory[];
  /** Sessions in the store while the figures of nodes were measured. */
  readonly sessionsBesideNodes: number;
  readonly steps: readonly AtSize[];
  readonly newNode: NewNode | null;
  readonly subjects: { readonly idle: BySubject; readonly restart: BySubject } | null;
  readonly distress: Readonly<Record<string, number>>;
  readonly problem: string;
}

/** Everything that `cluster-scale` starts ends with it, whatever happens. */
export async function measureClusterScale(sizes: Sizes, say: (text: string) => void): Promise<ClusterScale> {
  const upstreams = Array.from(
    { length: UPSTREAMS },
    () => new Child([process.execPath, join(import.meta.dirname, 'upstream.ts')]),
  );
  const ports = (await Promise.all(upstreams.map((child) => child.firstLine()))).map(Number);
  const bench = new Scale(sizes, ports, say);
  try {
    return await bench.measure();
  } finally {
    await bench.stop();
    await Promise.all(upstreams.map((child) => child.stop()));
  }
}

class Scale {
  readonly #sizes: Sizes;
  readonly #ports: readonly number[];
  readonly #say: (text: string) => void;
  readonly #workers: Worker<NodesFunctions>[] = [];
  readonly #urls: string[] = [];
  readonly #launched = new Set<Launched>();
  readonly #folders: string[] = [];
  #bus: BusMeter | null = null;
  /** Tools added by changes. */
  #added = 0;

  constructor(sizes: Sizes, ports: readonly number[], say: (text: string) => void) {
    this.#sizes = sizes;
    this.#ports = ports;
    this.#say = say;
  }

  async measure(): Promise<ClusterScale> {
    const { nodes, sessions } = this.#sizes;
    this.#bus = await BusMeter.start();
    const memory = sessions === 0 ? [] : await this.#memory(this.#bus);
    const each = memory.length < 2 ? 0 : ((memory.at(-1)!.heldMiB - memory[0]!.heldMiB) * 2 ** 20) / sessions;
    const fits = each * sessions * nodes < freemem() * MOST_OF_MEMORY;
    if (!fits) {
      await this.#bus.stop();
      this.#bus = await BusMeter.start();
      this.#say(`${nodes} nodes cannot keep ${sessions} sessions in the memory of this machine: measured without them`);
    }
    const steps: AtSize[] = [];
    let problem = '';
    let newNode: NewNode | null = null;
    let subjects: ClusterScale['subjects'] = null;
    try {
      for (const size of [...STEPS.filter((step) => step < nodes), nodes]) {
        steps.push(await this.#atSize(this.#bus, size, steps.at(-1)));
      }
      newNode = await this.#newNode(this.#bus, steps.at(-1)!.idleBytesPerSecond);
      const idle = await this.#bus.bySubject(() => delay(IDLE_MS));
      const restart = await this.#bus.bySubject(async () => {
        await this.#restart(sharedNames(this.#sizes.servers)[1]!, 0);
        await delay(CHANGE_MS);
      });
      subjects = { idle, restart };
      await this.#profile();
    } catch (error) {
      problem = error instanceof Error ? error.message : String(error);
    }
    const distress: Record<string, number> = {};
    for (const worker of this.#workers) {
      const found = await worker.call('distress').catch(() => ({}) as Record<string, number>);
      for (const [event, count] of Object.entries(found)) distress[event] = (distress[event] ?? 0) + count;
    }
    const sessionsBesideNodes = fits ? sessions : 0;
    return { sizes: this.#sizes, memory, sessionsBesideNodes, steps, newNode, subjects, distress, problem };
  }

  /** Memory of one node without servers of its own, while other sessions are written to the store. */
  async #memory(bus: BusMeter): Promise<Memory[]> {
    const { sessions } = this.#sizes;
    const node = await this.#launch(bus, 'memory', {});
    const writer = new Worker<SessionsFunctions>(new URL('sessions.ts', import.meta.url));
    const found: Memory[] = [];
    try {
      let written = 0;
      for (const count of [0, sessions / 10, sessions]) {
        await writer.call('write', bus.url, written, count);
        written = count;
        await delay(IDLE_MS / 2);
        const heldMiB = (await heldKiB([node.child.pid])) / 1024;
        const rssMiB = rssKiB([node.child.pid]) / 1024;
        found.push({ sessions: count, heldMiB, rssMiB });
        this.#say(`${count} sessions: a node holds ${heldMiB.toFixed(1)} MiB`);
      }
    } finally {
      await writer.stop();
      await this.#end(node);
    }
    return found;
  }

  async #atSize(bus: BusMeter, size: number, before: AtSize | undefined): Promise<AtSize> {
    const start = (): Promise<void> => this.#startNodes(bus, size);
    const started = await bus.during(start, 0, START_MS, QUIET_BYTES + QUIET_BYTES_PER_PAIR * size * size);
    const idle = await this.#idle(bus, size);
    const { servers } = this.#sizes;
    const shared = sharedNames(servers).slice(1, 1 + RESTARTS);
    const own = ownNames(0).slice(1, 1 + RESTARTS);
    const found: AtSize = {
      nodes: size,
      startBytes: (before?.startBytes ?? 0) + started.bytes,
      startMessages: (before?.startMessages ?? 0) + started.messages,
      startMs: (before?.startMs ?? 0) + started.ms,
      ...idle,
      ownRestartBytes: await this.#restarts(bus, own, idle.idleBytesPerSecond),
      sharedRestartBytes: await this.#restarts(bus, shared, idle.idleBytesPerSecond),
      changes: {
        own: await this.#change(ownNames(0)[0]!, size),
        shared: await this.#change(sharedNames(servers)[0]!, size),
      },
      quiet: started.quiet,
      load: loadavg()[0]!,
    };
    this.#say(JSON.stringify(found));
    return found;
  }

  async #idle(bus: BusMeter, size: number) {
    const pids = this.#workers.map(({ process }) => process.pid!);
    const now = async () => ({
      ...(await bus.traffic()),
      at: performance.now(),
      cpu: cpuUs(pids),
      natsCpu: cpuUs([bus.pid]),
    });
    const before = await now();
    await delay(IDLE_MS);
    const after = await now();
    const ms = after.at - before.at;
    const messages = after.inMessages + after.outMessages - before.inMessages - before.outMessages;
    return {
      idleBytesPerSecond: ((bytesOf(after) - bytesOf(before)) * 1_000) / ms,
      idleMessagesPerSecond: (messages * 1_000) / ms,
      idleCpuEach: (after.cpu - before.cpu) / 1_000 / ms / size,
      idleCpuNats: (after.natsCpu - before.natsCpu) / 1_000 / ms,
    };
  }

  /** One after the other: on a machine with few cores, nodes that start at once take each other's leases away. */
  async #startNodes(bus: BusMeter, size: number): Promise<void> {
    const shared = sharedNames(this.#sizes.servers);
    const begun = performance.now();
    for (let node = this.#urls.length; node < size; node++) {
      const ms = performance.now() - begun;
      if (ms > START_MS) throw new Error(`${size} nodes do not start within ${START_MS / 1_000} s`);
      const at = Math.floor(node / NODES_EACH_PROCESS);
      this.#workers[at] ??= new Worker(new URL('nodes.ts', import.meta.url), [`--max-old-space-size=${HEAP_MIB}`]);
      const its = definitions([...shared, ...ownNames(node)], this.#ports);
      this.#urls[node] = await this.#workers[at].call('start', nameOf(node), bus.url, its);
      this.#say(`${node + 1} nodes; the last start began after ${Math.round(ms / 1_000)} s`);
    }
  }

  /** The median traffic of the restarts, in bytes. */
  async #restarts(bus: BusMeter, servers: readonly string[], idle: number): Promise<number> {
    const found: number[] = [];
    for (const server of servers) {
      found.push((await bus.during(() => this.#restart(server, 0), idle, QUIET_MS)).bytes);
    }
    return found.sort((one, other) => one - other)[found.length >> 1]!;
  }

  async #restart(server: string, node: number): Promise<void> {
    const state = await this.#workerOf(node).call('restart', nameOf(node), server);
    if (state === 'failed') throw new Error(`${server} is ${state} after its restart`);
  }

  #workerOf(node: number): Worker<NodesFunctions> {
    return this.#workers[Math.floor(node / NODES_EACH_PROCESS)]!;
  }

  /** The notifications that a client at the last node receives when that server gets one more tool. */
  async #change(server: string, size: number): Promise<Record<Kind, number>> {
    const client = await ListeningClient.open(this.#urls[size - 1]!);
    try {
      const before = await this.#wholeList(client, size * OWN_EACH + this.#sizes.servers);
      if (before === null) throw new Error('a client does not get a whole list');
      await delay(1_000);
      client.changes();
      const changed = await fetch(urlOf(server, this.#ports, 'change'), { method: 'POST' });
      const { listening } = (await changed.json()) as { listening: number };
      if (listening === 0) throw new Error(`no node listens to ${server}`);
      this.#added++;
      await delay(CHANGE_MS);
      return client.changes();
    } finally {
      await client.close();
    }
  }

  /** Asks until all tools are there. Null: not in time. */
  async #wholeList(client: ListeningClient, servers: number): Promise<number | null> {
    const end = performance.now() + LIST_MS;
    for (;;) {
      const { length } = await client.toolNames();
      if (length >= servers * TOOLS_EACH + this.#added) return length;
      if (performance.now() > end) return null;
      await delay(250);
    }
  }

  /** One more node, in a process of its own, as operators start it. */
  async #newNode(bus: BusMeter, idle: number): Promise<NewNode> {
    const { nodes, servers } = this.#sizes;
    const tools = (servers + nodes * OWN_EACH) * TOOLS_EACH + this.#added;
    let found: Omit<NewNode, 'bytes'> | null = null;
    const { bytes } = await bus.during(
      async () => {
        const others = this.#workers.map(({ process }) => process.pid!);
        const cpuBefore = cpuUs(others);
        const begun = performance.now();
        const node = await this.#launch(bus, 'new', definitions(sharedNames(servers), this.#ports));
        const readyMs = performance.now() - begun;
        const client = await ListeningClient.open(node.facts.mcpUrl);
        const first = (await client.toolNames()).length;
        const firstListMs = performance.now() - begun - readyMs;
        const whole = await this.#wholeList(client, servers + nodes * OWN_EACH);
        const completeMs = whole === null ? Number.POSITIVE_INFINITY : performance.now() - begun - readyMs;
        const cpuMs = cpuUs([node.child.pid]) / 1_000;
        const cpuMsOfEachOther = (cpuUs(others) - cpuBefore) / 1_000 / nodes;
        await delay(CHANGE_MS);
        found = {
          readyMs,
          firstListMs,
          firstListTools: first,
          tools,
          completeMs,
          changes: client.changes(),
          heldMiB: (await heldKiB([node.child.pid])) / 1024,
          cpuMs,
          cpuMsOfEachOther,
          load: loadavg()[0]!,
        };
        await client.close();
        await this.#end(node);
      },
      idle,
      QUIET_MS,
    );
    return { ...found!, bytes };
  }

  async #launch(bus: BusMeter, node: string, servers: object): Promise<Launched> {
    const folder = await mkdtemp(join(tmpdir(), 'trunkline-bench-scale-'));
    this.#folders.push(folder);
    const cluster = { nats: bus.url, node, secret: SECRET };
    const launched = await launch(folder, servers, { $schema: 'trunkline', cluster }, [COLLECTS]);
    this.#launched.add(launched);
    await untilReady(launched.facts.mcpUrl);
    return launched;
  }

  async #end(launched: Launched): Promise<void> {
    this.#launched.delete(launched);
    await launched.child.stop();
  }

  /** CPU profiles of the first process, idle and while a server restarts; for `BENCH_CPU_PROF`. */
  async #profile(): Promise<void> {
    const folder = process.env['BENCH_CPU_PROF'];
    if (folder === undefined) return;
    await this.#workers[0]!.call('profile', join(folder, 'cluster-scale-idle.cpuprofile'), IDLE_MS);
    const restarting = this.#workers[0]!.call('profile', join(folder, 'cluster-scale-restart.cpuprofile'), IDLE_MS);
    await delay(500);
    await this.#restart(`${LIVE}-0`, 0);
    await restarting;
  }

  async stop(): Promise<void> {
    for (const { child } of this.#launched) await child.stop();
    await Promise.all(this.#workers.map((worker) => worker.stop()));
    await this.#bus?.stop();
    for (const folder of this.#folders) await rm(folder, { recursive: true, force: true });
  }
}

function nameOf(node: number): string {
  return `n${node}`;
}
