import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import type { Server } from '../../api/operations.ts';
import { ago, useNow } from '../../parts/reading.ts';
import { Table } from '../../parts/table.tsx';

/** CPU time has a resolution of 10 ms. */
const LEAST_MS = 500;

interface ConnectionsProps {
  readonly server: Server;
  /** As the node that has it said last: with what its processes use. */
  readonly read: Server | null;
}

/** The processes of a server, or its sessions, with what they use. */
export function Connections({ server, read }: ConnectionsProps) {
  const usage = new Map(read?.connections.map((one) => [one.id, one.usage]));
  const shares = useProcessorShares(read);
  const now = useNow();
  const memory = (id: string): string => {
    const bytes = usage.get(id)?.memoryBytes;
    return bytes === undefined ? '–' : `${Math.round(bytes / 1_048_576)} MiB`;
  };
  const processor = (id: string): string => (shares.has(id) ? `${Math.round(100 * shares.get(id)!)} %` : '–');
  return (
    <Table
      label="Connections"
      rows={server.connections}
      keyOf={({ id }) => id}
      columns={[
        { id: 'key', title: 'Of', width: 'minmax(7rem, 2fr)', cell: ({ key }) => key },
        { id: 'pid', title: 'Process', width: '5rem', align: 'end', cell: ({ pid }) => pid ?? '–' },
        { id: 'memory', title: 'Memory', width: '6rem', align: 'end', wideOnly: true, cell: ({ id }) => memory(id) },
        { id: 'cpu', title: 'CPU', width: '4rem', align: 'end', wideOnly: true, cell: ({ id }) => processor(id) },
        { id: 'state', title: 'State', width: '5rem', cell: ({ state }) => state },
        { id: 'requests', title: 'Requests', width: '6rem', align: 'end', wideOnly: true, cell: (one) => one.requests },
        { id: 'errors', title: 'Errors', width: '5rem', align: 'end', wideOnly: true, cell: (one) => one.errors },
        { id: 'used', title: 'Used', width: '7rem', wideOnly: true, cell: (one) => ago(one.lastUsedAt, now) },
      ]}
      empty={<p>Nothing is connected to it at the moment.</p>}
    />
  );
}

/** By connection: how much of a processor its process has used between the last two readings. */
function useProcessorShares(read: Server | null): ReadonlyMap<string, number> {
  const shares = useSignal<ReadonlyMap<string, number>>(new Map());
  const before = useRef({ at: Number.NEGATIVE_INFINITY, cpuMs: new Map<string, number>() });
  useEffect(() => {
    const at = performance.now();
    const { at: then, cpuMs: known } = before.current;
    if (read === null || at - then < LEAST_MS) return;
    const cpuMs = new Map(
      read.connections.flatMap(({ id, usage }) => (usage === undefined ? [] : [[id, usage.cpuMs]])),
    );
    shares.value = new Map(
      [...cpuMs].flatMap(([id, ms]) => (known.has(id) ? [[id, Math.max(0, ms - known.get(id)!) / (at - then)]] : [])),
    );
    before.current = { at, cpuMs };
  }, [read]);
  return shares.value;
}
