import './overview/overview.css';
import { useEffect } from 'preact/hooks';
import { duration } from '../../../src/model/call-labels.ts';
import { listNodes, listRates } from '../api/operations.ts';
import { Empty, Failure, Unread } from '../parts/notes.tsx';
import { useReading } from '../parts/reading.ts';
import { serverList, servers, serversReader } from '../servers.ts';
import { Attention } from './overview/attention.tsx';
import { LatencyChart } from './overview/latency-chart.tsx';
import { addSeconds, followRates, totals } from './overview/rates.ts';
import { Topology } from './overview/topology.tsx';

export default function Overview() {
  useEffect(followRates, []);
  const before = useReading(listRates, '', {});
  useEffect(() => addSeconds(before.value.value?.nodes ?? []), [before.value.value]);
  const found = useReading(() => listNodes({}), '', {
    lists: ['nodes', 'configuration'],
    events: ['added', 'replaced', 'removed'],
  });
  if (servers.value === null) return <Unread of={serversReader} what="servers" />;
  const { nodes, conflicts } = found.value.value ?? { nodes: [], conflicts: [] };
  if (serverList.value.length === 0) {
    return (
      <>
        <h1>Overview</h1>
        <Empty title="No servers yet">
          <p>
            <a href="#/servers?add=1">Add one</a>, or on the command line:{' '}
            <code>trunkline add fs npx -y @modelcontextprotocol/server-filesystem .</code>
          </p>
        </Empty>
      </>
    );
  }
  return (
    <>
      <h1>Overview</h1>
      <Figures />
      <Attention conflicts={conflicts} />
      <Topology nodes={nodes} />
      <section aria-labelledby="latency">
        <h2 id="latency">Latency</h2>
        {before.error.value === null ? null : (
          <Failure what="The seconds before could not be read" error={before.error.value} again={before.again} />
        )}
        <LatencyChart />
        <p class="soft">p50, p95 and p99 of the calls of each second, of all nodes, in the last five minutes.</p>
      </section>
    </>
  );
}

function Figures() {
  const { perSecond, errors, sessions, p50, p95, p99 } = totals.value;
  const time = (ms: number | null): string => (ms === null ? '–' : duration(ms));
  const figures = [
    ['Calls per second', perSecond < 10 ? perSecond.toFixed(1) : String(Math.round(perSecond))],
    ['Errors per second', errors.toFixed(1)],
    ['Active sessions', String(sessions)],
    ['p50', time(p50)],
    ['p95', time(p95)],
    ['p99', time(p99)],
  ] as const;
  return (
    <dl class="figures">
      {figures.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
