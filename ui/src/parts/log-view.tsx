import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { getLogs, type LogLine } from '../api/operations.ts';
import { onLive, stopAll, wantLogs } from '../live.ts';
import { Failure, NotAnswered } from './notes.tsx';
import { clock } from './reading.ts';

const FIRST_LINES = 100;
const MAX_LINES = 500;

interface LogViewProps {
  readonly label: string;
  /** A server; empty for what the gateway logged of itself, null for all of it. */
  readonly server: string | null;
  /** Only of this node; of all where there is none. */
  readonly node?: string | undefined;
}

/** The end of what a server wrote and of what the gateway logged, followed while it is in sight. Remount with another `key` to show another log. */
export function LogView({ label, server, node: only }: LogViewProps) {
  const lines = useSignal<readonly LogLine[]>([]);
  const error = useSignal<Error | null>(null);
  const silent = useSignal<readonly string[]>([]);
  const box = useRef<HTMLPreElement>(null);
  /** What comes while the list is read; null while none is. */
  const held = useRef<LogLine[] | null>(null);
  /** What was in the list: the stream says the last of it once more. */
  const listed = useRef<Set<string>>(new Set());
  const add = (more: readonly LogLine[]): void => {
    const fresh = more.filter((entry) => !listed.current.delete(JSON.stringify(entry)));
    if (fresh.length > 0) lines.value = [...lines.value, ...fresh].slice(-MAX_LINES);
  };
  const read = (): void => {
    const meanwhile: LogLine[] = [];
    held.current = meanwhile;
    getLogs({ server: server ?? undefined, lines: FIRST_LINES, node: only })
      .then(
        ({ entries, silent: nodes = [] }) => {
          lines.value = entries;
          silent.value = nodes;
          listed.current = new Set(entries.map((entry) => JSON.stringify(entry)));
          error.value = null;
        },
        (cause: Error) => {
          error.value = cause;
        },
      )
      .then(() => {
        if (held.current !== meanwhile) return;
        held.current = null;
        add(meanwhile);
      });
  };
  useEffect(() => {
    // Asking for the log begins the stream anew; what was written before its `hello` is read then.
    const stop = stopAll(
      wantLogs(server ?? '*'),
      onLive('hello', read),
      onLive('logs', ({ node, entry }) => {
        if (!('server' in entry) || (server !== null && entry.server !== server)) return;
        if (only !== undefined && node !== only) return;
        const line = node === null ? entry : { loggedBy: node, ...entry };
        if (held.current === null) add([line]);
        else held.current.push(line);
      }),
    );
    read();
    return stop;
  }, []);
  useEffect(() => {
    const element = box.current;
    if (element !== null) element.scrollTop = element.scrollHeight;
  }, [lines.value]);
  return (
    <>
      {error.value === null ? null : <Failure what="The log could not be read" error={error.value} again={read} />}
      <NotAnswered nodes={silent.value} again={read} />
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by keyboard */}
      <pre ref={box} class="log" role="log" aria-live="off" tabIndex={0} aria-label={label}>
        {lines.value.length === 0
          ? 'Nothing was written yet.'
          : lines.value.map((entry) => lineText(entry, server === null)).join('\n')}
      </pre>
    </>
  );
}

function lineText(entry: LogLine, named: boolean): string {
  const { loggedBy, time, level, event, server, ...fields } = entry as LogLine & Readonly<Record<string, unknown>>;
  const { line, ...others } = fields as Readonly<Record<string, unknown>>;
  const rest = Object.keys(others).length === 0 ? '' : ` ${JSON.stringify(others)}`;
  const node = loggedBy === undefined ? '' : `${loggedBy} `;
  const of = named ? `${server || 'gateway'} ` : '';
  return `${clock(time)} ${node}${of}${level === 'info' ? '' : `${level} `}${typeof line === 'string' ? line : `${event}${rest}`}`;
}
