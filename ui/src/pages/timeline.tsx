import './timeline/timeline.css';
import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { callName, duration, outcomeLabel, UNNAMED_CLIENT } from '../../../src/model/call-labels.ts';
import type { Call } from '../api/operations.ts';
import { Command, shellWord } from '../parts/command.tsx';
import { Empty, Gone, NotAnswered, Unread } from '../parts/notes.tsx';
import { clock } from '../parts/reading.ts';
import { Status } from '../parts/status.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { replace, route, setQuery } from '../router.ts';
import { CallDetail, toneOfCall } from './timeline/call-detail.tsx';
import {
  callsReading,
  filterError,
  filterText,
  followCalls,
  isRead,
  missing,
  paused,
  readAgain,
  reads,
  resume,
  shown,
  silent,
  type TimedCall,
} from './timeline/calls.ts';
import { Lanes, type TimeWindow } from './timeline/lanes.tsx';

const LANES: Readonly<Record<string, (call: Call) => string>> = {
  server: ({ server }) => server ?? 'gateway',
  session: ({ session, client }) => `${client ?? 'client'} ${session ?? ''}`.trim(),
  client: ({ client }) => client ?? UNNAMED_CLIENT,
  node: ({ node, servedBy }) => servedBy ?? node ?? 'this gateway',
};
const ADDRESS_MS = 300;
const DEFAULT_SPAN_MS = 60_000;
const FOLLOW_MS = 500;

const COLUMNS: readonly Column<TimedCall>[] = [
  {
    id: 'time',
    title: 'Time',
    width: '7.5rem',
    cell: ({ call }) => clock(call.time, true),
    order: ({ from }) => from,
    wideOnly: true,
  },
  {
    id: 'name',
    title: 'Call',
    width: 'minmax(9rem, 2fr)',
    cell: ({ call }) => callName(call),
    order: ({ call }) => callName(call),
  },
  {
    id: 'outcome',
    title: 'Ended',
    width: 'minmax(6rem, 1fr)',
    cell: ({ call }) => <Status tone={toneOfCall(call)} text={outcomeLabel(call)} />,
    order: ({ call }) => outcomeLabel(call),
  },
  {
    id: 'ms',
    title: 'Took',
    width: '5.5rem',
    align: 'end',
    cell: ({ call }) => duration(call.ms),
    order: ({ call }) => call.ms,
  },
  {
    id: 'client',
    title: 'Client',
    width: 'minmax(6rem, 1fr)',
    wideOnly: true,
    cell: ({ call }) => call.client,
    order: ({ call }) => call.client ?? '',
  },
  {
    id: 'principal',
    title: 'Principal',
    width: 'minmax(6rem, 1fr)',
    wideOnly: true,
    cell: ({ call }) => call.principal,
    order: ({ call }) => call.principal,
  },
];

export default function Timeline() {
  const { rest, query } = route.value;
  const by = LANES[query.get('by') ?? ''] === undefined ? 'server' : query.get('by')!;
  const selected = rest[0];
  const [zoomed, zoom] = useRange(query.get('range'));
  const now = useSignal(Date.now());

  useEffect(followCalls, []);
  useEffect(() => {
    filterText.value = query.get('filter') ?? '';
  }, [query.get('filter')]);
  useEffect(() => {
    const timer = setInterval(() => {
      if (zoomed === null && !paused.value && !document.hidden) now.value = Date.now();
    }, FOLLOW_MS);
    return () => clearInterval(timer);
  }, [zoomed === null]);

  const readBefore = useRef(reads.peek());
  const isFirst = useRef(true);
  useEffect(() => {
    if (!isFirst.current || reads.value === readBefore.current) return;
    isFirst.current = false;
    const since = Date.now() - DEFAULT_SPAN_MS;
    // Nothing would be in sight.
    if (zoomed === null && shown.value.length > 0 && !shown.value.some(({ to }) => to >= since)) zoom('all');
  }, [reads.value]);

  if (!isRead.value) return <Unread of={callsReading} what="calls" />;
  const calls = shown.value;
  const lastMinute = { from: now.value - DEFAULT_SPAN_MS, to: now.value };
  const range = zoomed === 'all' ? extent(calls) : (zoomed ?? lastMinute);
  const inSight = calls.filter(({ from, to }) => to >= range.from && from <= range.to);
  const listed = zoomed === null ? calls : inSight;
  const open = calls.find(({ call }) => call.id === selected)?.call;
  const select = (id: string | null): void =>
    replace(id === null ? ['timeline'] : ['timeline', id], Object.fromEntries(query));
  const words = filterText.value.trim();
  return (
    <div class="timeline">
      <h1>Timeline</h1>
      <div class="toolbar">
        <label class="grow">
          <span class="hidden">Filter</span>
          <input
            type="search"
            class="wide"
            placeholder="server:github status:error ms>500 -client:codex"
            value={filterText.value}
            aria-invalid={filterError.value !== null}
            aria-describedby="filter-error"
            onInput={(event) => setQuery({ filter: event.currentTarget.value })}
          />
        </label>
        <label>
          Lanes{' '}
          <select value={by} onChange={(event) => setQuery({ by: event.currentTarget.value })}>
            {Object.keys(LANES).map((key) => (
              <option key={key} value={key}>
                {key}
              </option>
            ))}
          </select>
        </label>
        <button
          type="button"
          aria-pressed={paused.value}
          onClick={() => (paused.value ? resume() : (paused.value = true))}
        >
          {paused.value ? 'Go on' : 'Pause'}
        </button>
        <button type="button" disabled={zoomed === null} onClick={() => zoom(null)}>
          Last minute
        </button>
        <button type="button" disabled={calls.length === 0} onClick={() => zoom('all')}>
          All
        </button>
      </div>
      <p id="filter-error" class="tone-bad" role="status">
        {filterError.value}
      </p>
      {missing.value ? (
        <p class="tone-warn">
          Some calls are missing: there were more than could be followed.{' '}
          <button type="button" onClick={readAgain}>
            Read again
          </button>
        </p>
      ) : null}
      <NotAnswered nodes={silent.value} again={readAgain} />
      {calls.length === 0 ? (
        <Empty title={words === '' ? 'No calls yet' : 'No call matches'}>
          <p>
            {words === ''
              ? 'Connect a client, or call a tool in the playground.'
              : 'The gateway keeps the last 10,000 calls of each node; older ones are gone.'}
          </p>
        </Empty>
      ) : (
        <>
          <Lanes
            calls={inSight}
            laneOf={LANES[by]!}
            window={range}
            selected={selected}
            onWindow={zoom}
            onSelect={(one) => select(one?.call.id ?? null)}
          />
          <p class="soft">
            {inSight.length} of {calls.length} calls in sight. Drag to look closer; Ctrl and wheel zoom, Shift and wheel
            pan. <Command text={`trunkline calls${words === '' ? '' : ` ${filterWords(words)}`}`} />
          </p>
          {open === undefined ? null : <CallDetail call={open} onClose={() => select(null)} />}
          <Table
            label="Calls"
            rows={listed.toReversed()}
            columns={COLUMNS}
            keyOf={({ call }) => call.id}
            onOpen={({ call }) => select(call.id)}
            selected={selected}
            empty={<Empty title="No calls in this part of the time" />}
          />
        </>
      )}
      {open !== undefined || selected === undefined ? null : (
        <Gone what={`The call ${selected}`}>
          Each node keeps its last 10,000 requests; older ones are in the log. A filter may hide it, too.
        </Gone>
      )}
    </div>
  );
}

/** Behind `--` where a word could be taken for an option. */
function filterWords(text: string): string {
  const words = text.split(/\s+/);
  const cut = words.some((word) => /^-(?!\w+[:<>=])/.test(word)) ? '-- ' : '';
  return cut + words.map(shellWord).join(' ');
}

/** Which time is shown: all calls, or from one time to another; null for the last minute. */
type Range = TimeWindow | 'all' | null;

/** Kept in the address, written a moment after the last change: browsers refuse many writes in a row. */
function useRange(written: string | null): [Range, (next: Range) => void] {
  const range = useSignal(rangeOf(written));
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  /** What this page has written there: a later change may be under way already. */
  const own = useRef<string | null>(null);
  useEffect(() => {
    const isOwn = own.current === (written ?? '');
    own.current = null;
    if (isOwn) return;
    clearTimeout(timer.current);
    range.value = rangeOf(written);
  }, [written]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const zoom = (next: Range): void => {
    range.value = next;
    clearTimeout(timer.current);
    const text = next === null || next === 'all' ? (next ?? '') : `${next.from.toFixed(1)}-${next.to.toFixed(1)}`;
    timer.current = setTimeout(() => {
      own.current = text;
      setQuery({ range: text });
    }, ADDRESS_MS);
  };
  return [range.value, zoom];
}

function rangeOf(text: string | null): Range {
  if (text === 'all') return 'all';
  const [from = Number.NaN, to = Number.NaN] = (text ?? '').split('-').map(Number);
  return from < to ? { from, to } : null;
}

function extent(calls: readonly TimedCall[]): TimeWindow {
  let [from, to] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const one of calls) {
    if (one.from < from) from = one.from;
    if (one.to > to) to = one.to;
  }
  const margin = Math.max(10, (to - from) * 0.02);
  return { from: from - margin, to: to + margin };
}
