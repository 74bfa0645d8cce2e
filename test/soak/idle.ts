import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import type { ServerStatus } from '../../src/model/server-state.ts';
import { FaultBench, type Servers } from '../faults/fault-bench.ts';
import { StatefulServer } from '../fixtures/http/stateful.ts';
import { StatelessServer } from '../fixtures/http/stateless.ts';
import { figure, type Outcome, type Proof, type Run } from './proof.ts';

const OF_EACH_ERA = 25;
const SETTLE_MS = 10_000;
/** Long enough that each is probed four times. */
const IDLE_MS = 120_000;
/** The unit of `/proc/…/stat`, on every Linux. */
const TICKS_PER_SECOND = 100;

async function run({ say }: Run): Promise<Outcome> {
  // Without the probe of `ProbedGateway`, which costs more than the value measured here.
  const bench = new FaultBench(null);
  const remotes: { stop(): Promise<void> }[] = [];
  try {
    const servers: Servers = {};
    let asked = 0;
    for (let i = 0; i < OF_EACH_ERA; i++) {
      const intercept = ({ method }: { readonly method?: string | undefined }): boolean => {
        if (method === 'ping' || method === 'server/discover') asked++;
        return false;
      };
      const stateful = await StatefulServer.start({ intercept });
      const stateless = await StatelessServer.start({ intercept });
      remotes.push(stateful, stateless);
      servers[`stateful-${i}`] = { type: 'http', url: stateful.url };
      servers[`stateless-${i}`] = { type: 'http', url: stateless.url };
    }
    await bench.start(servers);
    await bench.gateway.ready();
    const pid = bench.gateway.process.pid!;
    await delay(SETTLE_MS);
    asked = 0;
    const [busyBefore, at] = [cpuSeconds(pid), performance.now()];
    await delay(IDLE_MS);
    const seconds = (performance.now() - at) / 1000;
    const share = ((cpuSeconds(pid) - busyBefore) / seconds) * 100;
    say(`${share.toFixed(2)} % of a core over ${Math.round(seconds)} s, ${asked} probes`);
    const { servers: after } = await bench.gateway.control<{ servers: ServerStatus[] }>('/api/v1/servers');
    const notUp = after.filter(({ state, health }) => state !== 'connected' || health !== 'healthy');
    return {
      figures: [
        figure('supervised idle HTTP servers', Object.keys(servers).length, ''),
        figure('watched for', seconds, 's'),
        figure('probes that they got', asked, ''),
        figure('time of the processor that the gateway used', share, '% of a core', 1),
        figure('servers that are not healthy in the end', notUp.length, '', 0),
      ],
      // Without probes, the servers are not supervised.
      broken: asked >= 100 ? [] : [`${asked} probes in ${Math.round(seconds)} s are not each of 50 servers every 30 s`],
    };
  } finally {
    await bench.dispose();
    for (const remote of remotes) await remote.stop();
  }
}

function cpuSeconds(pid: number): number {
  // The fields after the name in brackets, which may contain any character.
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)!.split(' ');
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
}

export const IDLE: Proof = {
  id: 'idle',
  group: 'faults',
  claim: '50 supervised idle HTTP servers of both eras use less than 1 % of a core',
  shortened: null,
  run,
};
