import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { counted } from '../../../src/model/counted.ts';
import { type Node as ClusterNode, drainNode, listNodes } from '../api/operations.ts';
import { onLive } from '../live.ts';
import { Action } from '../parts/action.tsx';
import { Command, shellWord } from '../parts/command.tsx';
import { NodeChoice } from '../parts/node-choice.tsx';
import { Empty, Unread } from '../parts/notes.tsx';
import { ago, useReading } from '../parts/reading.ts';
import { NODE_TONES, Status } from '../parts/status.tsx';
import { Table } from '../parts/table.tsx';
import { route } from '../router.ts';
import './operating.css';

export default function Cluster() {
  const of = route.value.query.get('node') ?? undefined;
  const found = useReading(() => listNodes({ node: of }), of ?? '', {
    lists: ['nodes', 'configuration'],
    events: ['added', 'replaced', 'removed'],
    // With these, nodes own something else.
    sessions: true,
  });
  if (found.value.value === null) return <Unread of={found} what="nodes" />;
  const { nodes, conflicts, owned, shared } = found.value.value;
  if (nodes.length === 0) {
    return (
      <>
        <h1>Cluster</h1>
        <Empty title="This gateway is no node of a cluster">
          <p>
            Gateways with the same NATS servers and the same secret act as one: <code>cluster</code> in the
            configuration, or <code>--nats</code>.
          </p>
        </Empty>
      </>
    );
  }
  const versions = new Set(nodes.map(({ version }) => version));
  return (
    <>
      <h1>Cluster</h1>
      <p>
        {counted(nodes.length, 'node')} <Command text="trunkline nodes" />
      </p>
      {versions.size > 1 ? (
        <p class="note tone-warn">
          <span>The nodes run different versions: {[...versions].join(', ')}.</span>
        </p>
      ) : null}
      <div class="cards">
        {nodes.map((node) => (
          <NodeCard key={node.peer} node={node} marks={of === undefined} after={found.again} />
        ))}
      </div>
      <section class="panel" aria-label="What the nodes share">
        <h2>What the nodes share, as {of ?? 'this node'} sees it</h2>
        <ul class="plain-list">
          {shared.map(({ part, healthy, detail }) => (
            <li key={part}>
              <Status tone={healthy ? 'good' : 'bad'} text={part} /> <span class="soft">{detail}</span>
            </li>
          ))}
        </ul>
      </section>
      {conflicts.length === 0 ? null : (
        <section class="panel" aria-label="Conflicts">
          <h2>Defined differently</h2>
          <ul class="plain-list">
            {conflicts.map(({ server, sides: [used = [], ...others] }) => (
              <li key={server}>
                <Status tone="warn" text={server} /> Calls go to the definition of {used.join(', ')}, not to that of{' '}
                {others.map((side) => side.join(', ')).join('; ')}. Make the files equal.
              </li>
            ))}
          </ul>
        </section>
      )}
      <section aria-label="Owned here">
        <h2>Owned by {of ?? 'this node'}</h2>
        <NodeChoice />
        <Table
          label="What only this node may run"
          rows={owned}
          keyOf={({ server, session, principal, epoch }) => `${server} ${session} ${principal} ${epoch}`}
          columns={[
            {
              id: 'server',
              title: 'Server',
              width: 'minmax(6rem, 1fr)',
              cell: (one) => one.server,
              order: (one) => one.server,
            },
            {
              id: 'whose',
              title: 'Whose',
              width: 'minmax(8rem, 2fr)',
              cell: ({ of, session, principal }) =>
                of === 'all' ? 'all callers' : `${principal ?? ''}${session === null ? '' : `, session ${session}`}`,
            },
            { id: 'processes', title: 'Processes', width: '6rem', align: 'end', cell: ({ processes }) => processes },
            { id: 'epoch', title: 'Epoch', width: 'minmax(6rem, 1fr)', wideOnly: true, cell: ({ epoch }) => epoch },
          ]}
          empty={
            <p class="soft">Nothing at the moment: processes of sessions, and singletons, are owned by one node.</p>
          }
        />
      </section>
    </>
  );
}

function NodeCard({ node, marks, after }: { node: ClusterNode; marks: boolean; after: () => void }) {
  const { node: name, peer, here, state, version, epoch, calls, busy, owned, full, servers, startedAt } = node;
  const rate = useSignal<number | null>(null);
  const running = useSignal(busy);
  useEffect(() => {
    running.value = busy;
  }, [busy]);
  useEffect(
    () =>
      onLive('stats', (message) => {
        if (message.node !== name) return;
        rate.value = message.servers.reduce((sum, { calls: count }) => sum + count, 0);
        running.value = message.servers.reduce((sum, { inFlight }) => sum + inFlight, 0);
      }),
    [name],
  );
  return (
    <section class="panel" aria-label={`Node ${name}`}>
      <h2>
        {name} {here && marks ? <span class="badge">here</span> : null} <Status tone={NODE_TONES[state]} text={state} />
      </h2>
      <dl class="facts">
        <dt>Version</dt>
        <dd>{version}</dd>
        <dt>Epoch</dt>
        <dd>{epoch || 'no lease'}</dd>
        <dt>Started</dt>
        <dd>{ago(startedAt)}</dd>
        <dt>Load</dt>
        <dd>
          {running.value ?? '?'} calls at its servers, {calls} for other nodes
          {rate.value === null ? '' : `; ${counted(rate.value, 'call')} in the last second`}
        </dd>
        <dt>Owns</dt>
        <dd>{owned ?? '?'} sessions with processes and singletons</dd>
        {full.length === 0 ? null : (
          <>
            <dt>At the limit</dt>
            <dd>{full.join(', ')}</dd>
          </>
        )}
        <dt>Servers</dt>
        <dd>{servers.join(', ') || 'none of its own'}</dd>
        <dt>On the bus</dt>
        <dd>
          <code>{peer}</code>
        </dd>
      </dl>
      <div class="actions">
        <Action
          label="Drain"
          command={`trunkline drain ${shellWord(name)}`}
          careful
          disabled={state === 'draining'}
          run={() => drainNode({ name: peer })}
          done={`${name} is draining`}
          after={after}
        />
      </div>
    </section>
  );
}
