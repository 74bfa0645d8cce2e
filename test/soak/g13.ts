import { type Servers, until } from '../faults/fault-bench.ts';
import { HundredDown } from '../faults/hundred-down.ts';
import { WireClient } from '../support/wire-client.ts';
import { ProbedGateway } from './probed-gateway.ts';
import { figure, type Outcome, type Proof, percentile, type Run } from './proof.ts';

const HEALTHY = ['zeta-1', 'zeta-2', 'zeta-3'];
const LISTS_FOR_MS = 60_000;

/** The healthy servers come last in the configuration, behind all that are down. */
async function run({ say }: Run): Promise<Outcome> {
  const gateway = new ProbedGateway();
  const down = await HundredDown.open(gateway.bench.folder);
  try {
    const healthy: Servers = Object.fromEntries(HEALTHY.map((name) => [name, gateway.bench.stdio(name)]));
    const begun = performance.now();
    await gateway.launch({ ...down.servers, ...healthy }, {}, down.env);
    const origin = gateway.url.origin;
    await until('ready', async () => (await fetch(`${origin}/readyz`)).status === 200);
    const readyMs = performance.now() - begun;
    say(`ready after ${Math.round(readyMs)} ms`);

    const statuses = async () =>
      (
        await gateway.bench.gateway.control<{ servers: { name: string; state: string; reason: string }[] }>(
          '/api/v1/servers',
        )
      ).servers;
    const isUp = ({ state }: { readonly state: string }): boolean => state === 'running' || state === 'connected';
    await until(
      'the healthy ones are up',
      async () => (await statuses()).filter(isUp).length === HEALTHY.length,
      60_000,
    );
    const healthyMs = performance.now() - begun;

    const opening = performance.now();
    const client = await WireClient.open(gateway.url.href);
    const listed = async (by = client): Promise<{ ms: number; servers: Set<string> }> => {
      const at = performance.now();
      const { result } = (await by.request('tools/list')).message;
      const names = (result.tools as { name: string }[]).map(({ name }) => name.split('__')[0]!);
      return { ms: performance.now() - at, servers: new Set(names) };
    };
    const first = await listed();
    const firstMs = performance.now() - opening;
    const complete = HEALTHY.every((name) => first.servers.has(name));
    say(`the first client had its list after ${Math.round(firstMs)} ms and had ${[...first.servers].join(', ')}`);

    const lists: number[] = [];
    const own: number[] = [];
    const newcomers: number[] = [];
    let incomplete = 0;
    let failedCalls = 0;
    const end = performance.now() + LISTS_FOR_MS;
    const single = await WireClient.open(gateway.bench.gateway.serverUrl(HEALTHY[0]!));
    while (performance.now() < end) {
      const { ms, servers } = await listed();
      lists.push(ms);
      if (!HEALTHY.every((name) => servers.has(name))) incomplete++;
      const at = performance.now();
      if ((await single.request('tools/list')).message.result === undefined) failedCalls++;
      own.push(performance.now() - at);
      // Servers are listed for each kind of client; this client is of a new kind.
      if (newcomers.length < 20 && lists.length % 20 === 0) {
        const opened = performance.now();
        const capabilities = { experimental: { [`kind-${newcomers.length}`]: {} } };
        await listed(await WireClient.open(gateway.url.href, { capabilities }));
        newcomers.push(performance.now() - opened);
      }
      await new Promise((done) => setTimeout(done, 20));
    }
    const last = await statuses();
    const up = last.filter(isUp);
    const dumb = last.filter(({ state, reason }) => !/running|connected|starting/.test(state) && !reason);
    const { delayP99Ms, delayP999Ms, delayMaxMs, turnCpuMaxMs } = await gateway.probe();
    return {
      figures: [
        figure('servers that are down', Object.keys(down.servers).length, ''),
        figure('from the start of the process to ready', readyMs, 'ms', 2_000),
        figure(
          'from the start of the process until the healthy are up, one behind the other and behind all that are down',
          healthyMs,
          'ms',
        ),
        figure('handshake and first list of the first client once the healthy servers are up', firstMs, 'ms', 200),
        figure('lists of all after that', lists.length, ''),
        figure('list of all, p50', percentile(lists, 50), 'ms'),
        figure('list of all, longest', Math.max(...lists), 'ms', 200),
        figure('list of a healthy server alone, longest', Math.max(...own), 'ms', 200),
        figure(
          'a client of a new kind opened and its first list, longest; the healthy start a process each for it',
          Math.max(...newcomers),
          'ms',
        ),
        figure('lists without all healthy servers', incomplete, '', 0),
        figure('event-loop delay, p99', delayP99Ms, 'ms'),
        figure('event-loop delay, p99.9', delayP999Ms, 'ms'),
        figure('event-loop delay from the start on, longest', delayMaxMs, 'ms', 50),
        figure('longest turn of the event loop from the start on, in processor time', turnCpuMaxMs, 'ms', 50),
      ],
      broken: [
        ...(complete ? [] : ['the first list did not have all healthy servers']),
        ...(failedCalls === 0 ? [] : [`${failedCalls} lists of a healthy server failed`]),
        ...(up.length === HEALTHY.length ? [] : [`up are ${up.map(({ name }) => name).join(', ')}`]),
        ...dumb.map(({ name, state }) => `${name} is ${state} and does not say why`),
      ],
    };
  } finally {
    await gateway.bench.dispose();
    down.close();
  }
}

export const G13: Proof = {
  id: 'G13',
  group: 'faults',
  claim:
    'With 100 servers down at once the gateway is ready within 2 s, lists the healthy within 200 ms, and never blocks the event loop for more than 50 ms (F01)',
  shortened: null,
  run,
};
