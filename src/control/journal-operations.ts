import { byTime, type Journal, joinCursors } from '../telemetry/journal.ts';
import { type JournalReading, JournalStream } from './journal-stream.ts';
import {
  type ApiOperation,
  type ControlRequest,
  namesOf,
  numberIn,
  operation,
  rawJson,
  type StreamAnswer,
} from './operation.ts';
import * as schemas from './schemas.ts';

export const OF_SERVER = { server: { description: 'Only of this server.' } };
const AFTER = {
  description: 'A cursor, or the id of the last event that is known, as `Last-Event-ID`: what followed it comes first.',
};
const LINES = {
  description: 'How many entries that are there already; 100 by default.',
  between: [0, 999_999] as const,
  code: 'lines_malformed',
};
const DEFAULT_LINES = 100;
const LINES_ERROR = { 400: 'The number of lines is not a whole number.' };

/** Events and logs of servers and the gateway. */
export const JOURNAL_OPERATIONS: readonly ApiOperation[] = [
  operation({
    id: 'streamEvents',
    method: 'GET',
    path: '/api/v1/events',
    summary: 'Events of servers, in order: states with their reasons, health, definitions.',
    query: { ...OF_SERVER, after: AFTER },
    streams: true,
    schema: schemas.EVENT,
    run: (request, { events }) => journalStream(reading(request, events, events.end)),
  }),
  operation({
    id: 'getLogs',
    method: 'GET',
    path: '/api/v1/logs',
    summary:
      'The last of what servers wrote to their standard error and of what the gateway logged of them, of all nodes.',
    query: { ...OF_SERVER, lines: LINES },
    schema: schemas.LOGS,
    errors: LINES_ERROR,
    merge(answers, { query }, absent) {
      const all = answers.flatMap(({ entries }) => entries).sort(byTime);
      const cursor = joinCursors(answers.map((answer) => answer.cursor));
      return { entries: all.slice(Math.max(0, all.length - linesIn(query))), cursor, silent: namesOf(absent) };
    },
    run({ query }, { logs, calls }) {
      const entries = logs.last(query.get('server'), linesIn(query)).map(({ json }) => loggedBy(calls.node, json));
      return rawJson(`{"entries":[${entries.join(',')}],"cursor":"${logs.cursor(logs.end)}"}`);
    },
  }),
  operation({
    id: 'streamLogs',
    method: 'GET',
    path: '/api/v1/logs/stream',
    summary: 'The last log entries of each node, then new ones as they come; through restarts of the servers.',
    query: { ...OF_SERVER, lines: LINES, after: AFTER },
    streams: true,
    runsAt: 'all-nodes',
    schema: schemas.LOG_ENTRY,
    errors: LINES_ERROR,
    run(request, { logs, calls }) {
      const lines = linesIn(request.query);
      const first = lines === 0 ? undefined : logs.last(request.query.get('server'), lines)[0];
      const from = first === undefined ? logs.end : first.seq - 1;
      return journalStream(reading(request, logs, from, (json) => loggedBy(calls.node, json)));
    },
  }),
];

function linesIn(query: URLSearchParams): number {
  return numberIn(query, 'lines') ?? DEFAULT_LINES;
}

function journalStream(of: JournalReading): StreamAnswer {
  return { stream: (writer, ended) => new JournalStream(writer, of, ended) };
}

/** Begins after the client's cursor if it sent one, else at `from`. */
function reading(
  { query, lastEventId }: ControlRequest,
  journal: Journal,
  from: number,
  format = (json: string): string => json,
): JournalReading {
  const after = lastEventId ?? query.get('after');
  return { journal, topic: query.get('server'), from: after === null ? from : journal.position(after), format };
}

function loggedBy(node: string | null, json: string): string {
  return node === null ? json : `{"loggedBy":${JSON.stringify(node)},${json.slice(1)}`;
}
