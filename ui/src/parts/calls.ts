import { type ReadonlySignal, useComputed, useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { callFilter } from '../../../src/model/call-filter.ts';
import { type Call, listCalls } from '../api/operations.ts';
import { onLive } from '../live.ts';
import { type Reading, useReading } from './reading.ts';

/** The last calls that the filter takes, the oldest first: read once, and then as they come. null until they were read. */
export function useCalls(
  filter: string,
  limit: number,
): Pick<Reading<unknown>, 'error' | 'again'> & {
  readonly calls: ReadonlySignal<readonly Call[] | null>;
  /** The nodes that nothing was read of. */
  readonly silent: ReadonlySignal<readonly string[]>;
} {
  const { value, error, again } = useReading(() => listCalls({ filter, limit }), filter, {});
  // Apart from those that were read: they come while these are being read, too.
  const fresh = useSignal<readonly Call[]>([]);
  useEffect(() => {
    fresh.value = [];
    const wanted = callFilter(filter);
    return onLive('calls', (message) => {
      if (message.lost) again();
      const more = message.calls.filter(wanted);
      if (more.length > 0) fresh.value = [...fresh.value, ...more].slice(-limit);
    });
  }, [filter]);
  const calls = useComputed(() => {
    const read = value.value?.calls;
    if (read === undefined) return null;
    const known = new Set(read.map(({ id }) => id));
    return [...read, ...fresh.value.filter(({ id }) => !known.has(id))].slice(-limit);
  });
  const silent = useComputed(() => value.value?.silent ?? []);
  return { calls, silent, error, again };
}
