import { computed, signal } from '@preact/signals';
import {
  type Gateway,
  getGateway,
  getServer,
  type Instance,
  listInstances,
  listServers,
  type Server,
} from './api/operations.ts';
import { ApiError } from './api/request.ts';
import { onLive, refusal } from './live.ts';
import { reader } from './parts/reading.ts';

/** Steps of a start come in a row: the server is read once for all of them. */
const READ_AFTER_MS = 120;

/** All servers by name; null until they were read. */
export const servers = signal<ReadonlyMap<string, Server> | null>(null);
/** How the servers do at each node of a cluster; empty for a lone gateway. */
const instances = signal<readonly Instance[]>([]);
/** The nodes that did not say how theirs do. */
export const silentNodes = signal<readonly string[]>([]);
export const gateway = signal<Gateway | null>(null);
export const serverList = computed<readonly Server[]>(() =>
  [...(servers.value?.values() ?? [])].sort((a, b) => (a.name < b.name ? -1 : 1)),
);

const byServer = computed(() => Map.groupBy(instances.value, ({ server }) => server));
/** The servers as each node that has them observes them. */
export const observed = computed<readonly Instance[]>(() =>
  serverList.value.flatMap(({ name, state, health, reason, nextRetryAt }) => {
    const known = byServer.value.get(name) ?? [];
    if (known.length > 1) return known;
    return [{ server: name, node: known[0]?.node ?? null, state, health, reason, nextRetryAt }];
  }),
);

/** The nodes that have the server, by name. */
export function nodesOf(server: string): readonly string[] {
  return (byServer.value.get(server) ?? []).flatMap(({ node }) => node ?? []).sort();
}

/** Servers that changed here while lists were asked for: what these say of them may be older. */
const newer = new Set<string>();
let asked = 0;
export const serversReader = reader(
  async () => {
    if (asked++ === 0) newer.clear();
    return Promise.all([listServers(), getGateway()]).finally(() => asked--);
  },
  ([list, facts]) => {
    servers.value = new Map(list.servers.map((server) => [server.name, server]));
    gateway.value = facts;
    for (const name of newer) void readServer(name);
  },
);

export async function readInstances(server?: string): Promise<void> {
  if (!inCluster) return;
  // Where it is not answered, the next `hello` or event has it read.
  const found = await listInstances({ server }).catch(() => null);
  if (found === null) return;
  silentNodes.value = found.silent ?? [];
  const others = server === undefined ? [] : instances.value.filter((one) => one.server !== server);
  instances.value = [...others, ...found.instances];
}

/** Puts in what an operation answered with, before an event says the same. */
export function putServer(server: Server): void {
  newer.add(server.name);
  servers.value = new Map(servers.value ?? []).set(server.name, server);
}

let inCluster = false;
const due = new Map<string, ReturnType<typeof setTimeout>>();

/** Has the list follow the live stream. */
export function followServers(): void {
  const readAll = (): void => {
    serversReader.again();
    void readInstances();
  };
  onLive('hello', ({ node }) => {
    inCluster = node !== null;
    readAll();
  });
  onLive('events', ({ event }) => {
    if (event.type === 'gap') {
      readAll();
      return;
    }
    const { server: name } = event;
    // It is about the gateway, or about a list that a page reads.
    if (name === '') {
      if (event.type === 'changed' && event.list === 'nodes') void readInstances();
      return;
    }
    if (due.has(name)) return;
    const timer = setTimeout(() => {
      due.delete(name);
      void readServer(name);
      void readInstances(name);
    }, READ_AFTER_MS);
    due.set(name, timer);
  });
  // Without the stream nothing else has them read.
  refusal.subscribe((refused) => {
    if (refused !== null) readAll();
  });
}

export async function readServer(name: string): Promise<void> {
  try {
    putServer(await getServer({ name }));
  } catch (cause) {
    if (!(cause instanceof ApiError) || cause.status !== 404) return;
    newer.add(name);
    const left = new Map(servers.value ?? []);
    left.delete(name);
    servers.value = left;
  }
}
