import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { getLogs, type LogLine } from '../../api/operations.ts';
import { onLive, wantLogs } from '../../live.ts';
import { Command, shellWord } from '../../parts/command.tsx';
import { Failure } from '../../parts/notes.tsx';
import { clock } from '../../parts/reading.ts';

const FIRST_LINES = 100;
const MAX_LINES = 500;

/** The end of what a server wrote and of what the gateway logged of it, at all nodes, followed while it is in sight. */
export function ServerLog({ name }: { readonly name: string }) {
  const lines = useSignal<readonly LogLine[]>([]);
  const error = useSignal<Error | null>(null);
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
    getLogs({ server: name, lines: FIRST_LINES })
      .then(
        ({ entries }) => {
          lines.value = entries;
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
    const stops = [
      wantLogs(name),
      onLive('hello', read),
      onLive('logs', ({ node, entry }) => {
        if (!('server' in entry) || entry.server !== name) return;
        const line = node === null ? entry : { loggedBy: node, ...entry };
        if (held.current === null) add([line]);
        else held.current.push(line);
      }),
    ];
    read();
    return () => {
      for (const stop of stops) stop();
    };
  }, []);
  useEffect(() => {
    const element = box.current;
    if (element !== null) element.scrollTop = element.scrollHeight;
  }, [lines.value]);
  return (
    <section class="panel" aria-label="Log">
      <h2>
        Log <Command text={`trunkline logs -f ${shellWord(name)}`} />
      </h2>
      {error.value === null ? null : <Failure what="The log could not be read" error={error.value} again={read} />}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by keyboard */}
      <pre ref={box} class="log" role="log" aria-live="off" tabIndex={0} aria-label="Log of the server">
        {lines.value.length === 0 ? 'It has written nothing yet.' : lines.value.map(lineText).join('\n')}
      </pre>
    </section>
  );
}

function lineText(entry: LogLine): string {
  const { loggedBy, time, level, event, server: _, ...fields } = entry as LogLine & Readonly<Record<string, unknown>>;
  const { line, ...others } = fields as Readonly<Record<string, unknown>>;
  const rest = Object.keys(others).length === 0 ? '' : ` ${JSON.stringify(others)}`;
  const node = loggedBy === undefined ? '' : `${loggedBy} `;
  return `${clock(time)} ${node}${level === 'info' ? '' : `${level} `}${typeof line === 'string' ? line : `${event}${rest}`}`;
}
