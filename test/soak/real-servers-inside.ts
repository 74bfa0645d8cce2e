import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { killAll, markedProcesses, survivors } from '../support/processes.ts';
import { ColdClient } from '../support/real-servers/cold-client.ts';
import { CLIENT_KINDS } from '../support/real-servers/first-lists.ts';
import { PUBLISHED } from '../support/real-servers/published.ts';
import { type Asked, RealServers } from '../support/real-servers/real-servers.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { WireClient } from '../support/wire-client.ts';
import { type Figure, figure, type Outcome } from './proof.ts';
import type { FromInside } from './real-servers.ts';

/**
 * The part of the proof that runs in the namespace, which has a network through the proxy that its argument names, for as
 * long as the process outside leaves the cable plugged in.
 */
const PROXY = process.argv[2]!;
/** The servers of a run with `--short`. */
const FEW = ['everything', 'memory', 'thinking', 'time', 'git', 'fetch'];
const SERVERS = PUBLISHED.filter(({ name }) => process.argv[3] !== 'short' || FEW.includes(name));
const START_MS = 420_000;
/** Two attempts at the registry, each of which may take its whole start time, and the wait between them. */
const SETTLED_MS = 240_000;
const UP = /^(?:running|connected)$/;
/** Words from which a person understands that there is no network. */
const OF_NETWORK =
  /network|fetching a package|Failed to fetch|registry|offline|proxy|DNS|ENOTFOUND|EAI_AGAIN|E(?:HOST|NET)UNREACH|ECONN|ETIMEDOUT|tunnel/i;
const FLAPS = 3;
const FETCHES = 4;
const CALL_EVERY_MS = 250;
const NO_LONGER_THAN_MS = 90_000;

interface Status {
  readonly name: string;
  readonly state: string;
  readonly reason: string | null;
  readonly restarts: number;
  readonly consecutiveFailures: number;
  readonly startedInMs: number | null;
  readonly lastLaunchFailure: { readonly error: string; readonly likelyCause: string | null } | null;
}

const tell = (message: FromInside): void => void process.send!(message);
const say = (text: string): void => tell({ say: text });
const broken: string[] = [];
const figures: Figure[] = [];
const mark = randomUUID();

async function plug(inserted: boolean): Promise<void> {
  const done = once(process, 'message');
  tell({ plug: inserted });
  await done;
}

async function statuses(gateway: RunningGateway): Promise<readonly Status[]> {
  return (await gateway.control<{ servers: readonly Status[] }>('/api/v1/servers')).servers;
}

async function until(what: string, atMostMs: number, done: () => Promise<boolean>): Promise<boolean> {
  for (const end = performance.now() + atMostMs; performance.now() < end; await delay(500))
    if (await done()) return true;
  broken.push(`${what} did not come within ${atMostMs / 1000} s`);
  return false;
}

const seconds = (since: number): number => (performance.now() - since) / 1000;

async function startGateway(servers: RealServers): Promise<RunningGateway> {
  const gateway = await RunningGateway.start({
    config: { mcpServers: servers.mcpServers },
    env: { ...servers.env, HTTPS_PROXY: PROXY },
  });
  void gateway.exited.then((code) => {
    if (!stopping.has(gateway)) broken.push(`the gateway ended with ${code}: ${gateway.stderr.slice(-2000)}`);
  });
  return gateway;
}

const stopping = new Set<RunningGateway>();
async function stop(gateway: RunningGateway): Promise<void> {
  stopping.add(gateway);
  await gateway.dispose();
}

/** Empty caches, an empty data folder and no client: each server is started once. */
async function coldStart(servers: RealServers, gateway: RunningGateway): Promise<Asked> {
  const begun = performance.now();
  await until('all servers', START_MS, async () => (await statuses(gateway)).every(({ state }) => UP.test(state)));
  const starts = servers.starts();
  const more = Object.entries(starts).filter(([, times]) => times !== 1);
  if (more.length > 0) broken.push(`not started once: ${JSON.stringify(Object.fromEntries(more))}`);
  const status = await statuses(gateway);
  const slowest = Math.max(...status.map(({ startedInMs }) => startedInMs ?? 0)) / 1000;
  say(`all are ready after ${Math.round(seconds(begun))} s, the slowest start took ${Math.round(slowest)} s`);
  for (const { name, restarts, lastLaunchFailure } of status) {
    if (restarts > 0 || lastLaunchFailure !== null) broken.push(`${name} failed first: ${lastLaunchFailure?.error}`);
  }
  figures.push(
    figure('servers', status.length, ''),
    figure('processes started by the gateway until all were ready', sum(starts), '', SERVERS.length),
    figure('until all were ready', seconds(begun), 's'),
    figure('slowest start', slowest, 's'),
  );
  const asked = await askedDirectly(servers);
  for (const { name, era } of SERVERS) {
    if (asked.eras[name] !== era) broken.push(`${name} speaks the ${asked.eras[name]} era`);
  }
  figures.push(figure('tools that the servers list without a gateway between', asked.tools.length, ''));
  return asked;
}

/** Asks the servers directly, with the network of the gateway. */
async function askedDirectly(servers: RealServers): Promise<Asked> {
  process.env['HTTPS_PROXY'] = PROXY;
  try {
    return await servers.asked();
  } finally {
    delete process.env['HTTPS_PROXY'];
  }
}

async function firstClients(gateway: RunningGateway, asked: Asked): Promise<void> {
  for (const kind of CLIENT_KINDS) {
    const { delivered, leftOut, problems } = await kind.first(gateway.mcpUrl, SERVERS, asked.tools);
    broken.push(...problems.map((text) => `${kind.name}: ${text}`));
    say(`${kind.name}: ${delivered.length} tools in its first list; it leaves out ${leftOut.length}`);
    figures.push(
      figure(`${kind.name}: tools lacking in its first list`, lacking(delivered, asked).length, '', 0),
      figure(`${kind.name}: tools that it leaves out itself`, leftOut.length, '', 0),
    );
  }
}

const lacking = (list: readonly string[], { tools }: Asked): string[] => tools.filter((tool) => !list.includes(tool));
const sum = (starts: Readonly<Record<string, number>>): number => Object.values(starts).reduce((a, b) => a + b, 0);

const LOCAL = SERVERS.filter(({ name }) => name === 'time' || name === 'memory');

/** A client whose processes run already: the start of one may need the network. */
async function warmed(gateway: RunningGateway): Promise<WireClient> {
  const client = await WireClient.open(gateway.mcpUrl);
  for (const { name, call } of LOCAL) await client.call(`${name}__${call!.tool}`, call!.args);
  return client;
}

/** Calls servers that need no network, until it is stopped. */
class LocalCalls {
  calls = 0;
  readonly failed: string[] = [];
  #stopped = false;
  readonly #ended: Promise<void>;

  constructor(client: WireClient) {
    this.#ended = this.#run(client);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#ended;
  }

  async #run(client: WireClient): Promise<void> {
    for (; !this.#stopped; await delay(CALL_EVERY_MS)) {
      for (const { name, call } of LOCAL) {
        this.calls++;
        const text = JSON.stringify(await client.call(`${name}__${call!.tool}`, call!.args).catch(String));
        if (!text.includes(call!.answer)) this.failed.push(text.slice(0, 300));
      }
    }
  }
}

/** Pulls the cable during calls that need the network; each has to end in an answer or an error. */
async function pulledUnderCalls(gateway: RunningGateway): Promise<void> {
  const client = await WireClient.open(gateway.mcpUrl);
  const local = new LocalCalls(await warmed(gateway));
  const begun = performance.now();
  const ends = Array.from({ length: FETCHES }, () =>
    client.request('tools/call', { name: 'fetch__fetch', arguments: { url: `${PROXY}/never` } }).then(
      ({ message }) => JSON.stringify(message),
      (error) => `the connection failed: ${error}`,
    ),
  );
  await delay(2_000);
  await plug(false);
  const answers = await Promise.race([Promise.all(ends), delay(NO_LONGER_THAN_MS, null)]);
  if (answers === null) broken.push(`calls under which the network was pulled had no end in ${NO_LONGER_THAN_MS} ms`);
  const odd = (answers ?? []).filter((text) => !/"(?:error|isError)":/.test(text));
  broken.push(...odd.map((text) => `a call under which the network was pulled: ${text.slice(0, 300)}`));
  for (let i = 0; i < FLAPS; i++) {
    await plug(true);
    await delay(1_000);
    await plug(false);
    await delay(1_000);
  }
  await local.stop();
  say(
    `calls under which the cable was pulled ended within ${Math.round(seconds(begun))} s: ${answers?.[0]?.slice(0, 200)}`,
  );
  broken.push(...[...new Set(local.failed)].slice(0, 3).map((text) => `a call that needs no network: ${text}`));
  figures.push(
    figure('calls of servers that need no network while the cable was pulled', local.calls, ''),
    figure('failed calls of servers that need no network', local.failed.length, '', 0),
  );
}

/** Without a network each server is either up or has failed for a reason that a person understands. */
async function settledOffline(what: string, gateway: RunningGateway): Promise<readonly Status[]> {
  await until(`${what}: every server up or failed`, SETTLED_MS, async () =>
    (await statuses(gateway)).every(
      ({ state, consecutiveFailures, lastLaunchFailure }) =>
        UP.test(state) || (consecutiveFailures > 0 && lastLaunchFailure !== null),
    ),
  );
  const status = await statuses(gateway);
  const down = status.filter(({ state }) => !UP.test(state));
  for (const { name, lastLaunchFailure, reason } of down) {
    const reported = `${reason} ${lastLaunchFailure?.error} ${lastLaunchFailure?.likelyCause}`;
    say(`${what}: ${name} is down: ${lastLaunchFailure?.error}; ${lastLaunchFailure?.likelyCause}`.slice(0, 400));
    if (!OF_NETWORK.test(reported))
      broken.push(`${what}: ${name} says nothing of the network: ${reported.slice(0, 400)}`);
  }
  figures.push(
    figure(`${what}: servers that run from their cache`, status.length - down.length, ''),
    figure(`${what}: servers that say that they cannot be fetched`, down.length, ''),
  );
  return status;
}

/** Every process of every server is killed while there is no network; then it comes back. */
async function killedOffline(gateway: RunningGateway): Promise<void> {
  const killed = markedProcesses(mark);
  killAll(killed);
  figures.push(figure('processes killed without a network', killed.length, ''));
  await until('the restart of every server', SETTLED_MS, async () =>
    (await statuses(gateway)).every(({ restarts }) => restarts > 0),
  );
  await settledOffline('killed without a network', gateway);
  await plug(true);
  const begun = performance.now();
  await until('all servers, with the network back,', START_MS, async () =>
    (await statuses(gateway)).every(({ state }) => UP.test(state)),
  );
  figures.push(figure('until all were up with the network back', seconds(begun), 's'));
}

/** A gateway with an empty data folder and full caches, and clients that come before its servers. */
async function startedOffline(servers: RealServers, asked: Asked): Promise<void> {
  await plug(false);
  const gateway = await startGateway(servers);
  try {
    const clients = (['stateful', 'stateless'] as const).map((era) => new ColdClient(gateway.mcpUrl, era));
    await Promise.all(clients.map((client) => client.start()));
    const status = await settledOffline('started without a network', gateway);
    const up = new Set(status.filter(({ state }) => UP.test(state)).map(({ name }) => name));
    const of = { ...asked, tools: asked.tools.filter((tool) => up.has(tool.split('__')[0]!)) };
    for (const client of clients) await heard('without a network', client, of);
    await plug(true);
    for (const client of clients) await heard('with the network back', client, asked);
    for (const client of clients) await client.stop();
  } finally {
    await stop(gateway);
  }
}

/** The client lists only after a notification of a change. */
async function heard(when: string, client: ColdClient, asked: Asked): Promise<void> {
  await until(
    `the whole list of the ${client.era} client that came first, ${when},`,
    START_MS,
    async () => lacking(client.lists.at(-1)!, asked).length === 0,
  );
  say(`${when} the ${client.era} client has listed ${client.lists.length} times`);
}

async function run(): Promise<Outcome> {
  const servers = await RealServers.prepare(SERVERS, mark);
  if (typeof servers === 'string') return { figures: [], broken: [servers] };
  try {
    const gateway = await startGateway(servers);
    let asked: Asked;
    try {
      asked = await coldStart(servers, gateway);
      await firstClients(gateway, asked);
      await pulledUnderCalls(gateway);
      await killedOffline(gateway);
    } finally {
      await stop(gateway);
    }
    await startedOffline(servers, asked);
    const left = await survivors(mark, 5_000);
    return { figures: [...figures, figure('processes left', left.length, '', 0)], broken };
  } finally {
    servers.dispose();
  }
}

tell({ outcome: await run().catch((error: Error) => ({ figures, broken: [...broken, String(error.stack)] })) });
process.disconnect();
