/** Recordings of both wires, as the control API returns them. */
import { count, described, type Infer, isoTime, list, named, nullable, object, oneOf, text } from './schema.ts';

/** Which messages to record; null for a criterion that does not matter. */
export const RECORDING_TARGET = {
  session: described(nullable(text), 'Label of a session that is open.'),
  client: described(nullable(text), 'The next session of a client that gives this name of itself.'),
  principal: described(nullable(text), 'The next session of this principal, such as `agent:ada`.'),
  server: described(
    nullable(text),
    'Alone: all that passes between the gateway and this server, and the sessions at its own endpoint. Otherwise only this server of the session.',
  ),
};

export const RECORDING = named(
  'Recording',
  object({
    id: text,
    ...RECORDING_TARGET,
    node: described(nullable(text), 'The only node that records; null where all do.'),
    nodes: described(list(text), 'The nodes that keep a part of it; none for a lone gateway.'),
    state: oneOf(['waiting', 'recording', 'stopped']),
    reason: described(nullable(text), 'Why it stopped.'),
    startedAt: isoTime,
    entries: count,
    bytes: count,
    maxEntries: count,
    maxBytes: count,
    sessions: described(list(text), 'Labels of the sessions in it.'),
    servers: described(list(text), 'The servers in it.'),
  }),
  'A recording of both wires.',
);
export type RecordingOfNodes = Infer<typeof RECORDING>;
export type RecordingView = Omit<RecordingOfNodes, 'nodes'>;
export type RecordingTarget = Pick<RecordingView, keyof typeof RECORDING_TARGET | 'node'>;
export type RecordingLimits = Pick<RecordingView, 'maxEntries' | 'maxBytes'>;

/** Merges the parts of one recording that the nodes have. */
export function mergedRecording(parts: readonly RecordingOfNodes[]): RecordingOfNodes {
  const all = <T>(listed: (part: RecordingOfNodes) => readonly T[]): T[] => [...new Set(parts.flatMap(listed))];
  const sum = (counted: (part: RecordingOfNodes) => number): number => parts.reduce((to, one) => to + counted(one), 0);
  const state =
    (['recording', 'waiting'] as const).find((one) => parts.some((part) => part.state === one)) ?? 'stopped';
  return {
    ...parts[0]!,
    state,
    reason: state === 'stopped' ? parts[0]!.reason : null,
    nodes: all(({ nodes }) => nodes),
    sessions: all(({ sessions }) => sessions),
    servers: all(({ servers }) => servers),
    entries: sum(({ entries }) => entries),
    bytes: sum(({ bytes }) => bytes),
  };
}

/** Sorts the oldest first. */
export function byStart(a: { readonly startedAt: string }, b: { readonly startedAt: string }): number {
  return a.startedAt.localeCompare(b.startedAt);
}

export const RECORDING_LIMITS = {
  maxEntries: { default: 10_000, most: 100_000 },
  maxBytes: { default: 8 * 1024 * 1024, most: 16 * 1024 * 1024 },
} as const;
/** Maximum text size of a recording for a replay. */
export const MAX_REPLAY_BYTES = 48 * 1024 * 1024;
/** Maximum number of recordings; further ones are refused until one is deleted. */
export const MAX_RECORDINGS = 32;

const DIFFERENCE = named(
  'Difference',
  object({
    step: described(count, 'Which request of the recording, from 1.'),
    request: described(text, 'Its method and name.'),
    path: described(text, 'Where in the answer, such as `$.result.content[0].text`.'),
    before: described(nullable(text), 'JSON text as recorded; null where there was nothing.'),
    after: described(nullable(text), 'JSON text of the replay; null where there is nothing.'),
  }),
);
export type Difference = Infer<typeof DIFFERENCE>;

export const REPLAY = named(
  'Replay',
  object({
    server: text,
    replayed: described(count, 'Requests that were sent again.'),
    skipped: described(list(text), 'Requests that were not, and why.'),
    differences: list(DIFFERENCE),
  }),
);
export type Replay = Infer<typeof REPLAY>;

export const REPLAY_TEST = named(
  'ReplayTest',
  object({ text: described(text, 'A program for `node --test`, as an ECMAScript module.') }),
);
export type ReplayTest = Infer<typeof REPLAY_TEST>;

export interface ReplayOptions {
  /** The server that receives the replayed requests. */
  readonly server: string;
  /** The recorded server; null: the only one in the recording. */
  readonly of: string | null;
  /** Paths whose differences do not count. `*` matches any step. */
  readonly ignore: readonly string[];
}
