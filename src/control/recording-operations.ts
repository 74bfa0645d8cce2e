import {
  byStart,
  MAX_RECORDINGS,
  MAX_REPLAY_BYTES,
  mergedRecording,
  RECORDING,
  RECORDING_LIMITS,
  RECORDING_TARGET,
  REPLAY,
  REPLAY_TEST,
  type RecordingOfNodes,
  type ReplayOptions,
} from '../model/recordings.ts';
import { count, described, type Infer, list, nullable, object, optional, type Schema, text } from '../model/schema.ts';
import { mergedParts } from '../telemetry/recorder/merged-parts.ts';
import type { Recording } from '../telemetry/recorder/recording.ts';
import { runAtNodes } from './at-nodes.ts';
import type { ControlPlane } from './control-plane.ts';
import { bodyOf } from './json-object.ts';
import {
  type ApiOperation,
  type ControlAnswer,
  type ControlRequest,
  namesOf,
  noSuchServer,
  ok,
  operation,
  problem,
} from './operation.ts';
import { REMOVED, SILENT } from './schemas.ts';

const NODE = { node: { description: 'Only the part of this node; by default those of all nodes.' } };
const SILENT_ERRORS = {
  404: 'There is no recording of this id.',
  503: 'A node that may have a part of it does not answer.',
};
const { session, client, principal, server } = RECORDING_TARGET;
const limit: Schema<number> = { ...count, minimum: 1 };
const START = object({
  session: optional(session),
  client: optional(client),
  principal: optional(principal),
  server: optional(server),
  maxEntries: optional(described(limit, 'It stops there. 10 000 by default, at most 100 000.')),
  maxBytes: optional(described(limit, 'It stops there. 8 MiB by default, at most 16 MiB.')),
});
const REPLAY_ERRORS = {
  400: 'The body is malformed, or nothing of the recording can be replayed.',
  404: 'There is no recording of this id, or no server of this name.',
};
const REPLAY_REQUEST = object({
  recording: optional(described(nullable(text), 'Id of a recording that is kept here.')),
  jsonl: optional(described(nullable(text), 'The text of one, in its place.')),
  server: described(text, 'The server to replay it against.'),
  of: optional(described(nullable(text), 'The recorded server, where the recording is of a client of several.')),
  ignore: optional(described(list(text), 'Paths whose differences do not count, such as `$.result.content[*].text`.')),
});

const GET_RECORDING = operation({
  id: 'getRecording',
  method: 'GET',
  path: '/api/v1/recordings/{name}',
  summary: 'A recording with its text, in JSON Lines.',
  schema: object({ recording: RECORDING, jsonl: described(text, 'One JSON text a line.'), silent: SILENT }),
  query: NODE,
  errors: SILENT_ERRORS,
  merge(answers, _request, absent) {
    if (answers.length === 0) return null;
    const recording = mergedRecording(answers.map((answer) => answer.recording));
    const { node, startedAt } = recording;
    // A node that was lost before the start has no part of the recording.
    const silent = node === null ? namesOf(absent.filter(({ lostAt }) => lostAt >= Date.parse(startedAt))) : [];
    const jsonl = mergedParts(
      answers.map((answer) => answer.jsonl),
      silent,
    );
    return { recording, jsonl, silent };
  },
  run: ({ name }, plane) =>
    withRecording(name, plane, (recording) => ok({ recording: viewAt(recording, plane), jsonl: recording.jsonl })),
});

/** Recordings of the messages between client, gateway and servers, and their replay. */
export const RECORDING_OPERATIONS: readonly ApiOperation[] = [
  operation({
    id: 'listRecordings',
    method: 'GET',
    path: '/api/v1/recordings',
    summary: 'The recordings, the oldest first.',
    query: NODE,
    schema: object({ recordings: list(RECORDING), silent: SILENT }),
    merge: (answers, _request, absent) => {
      const parts = answers.flatMap(({ recordings }) => recordings);
      const recordings = [...Map.groupBy(parts, ({ id }) => id).values()].map(mergedRecording).sort(byStart);
      return { recordings, silent: namesOf(absent) };
    },
    async run(_request, plane) {
      return ok({ recordings: (await plane.recorder.list()).map((one) => viewAt(one, plane)) });
    },
  }),
  operation({
    id: 'startRecording',
    method: 'POST',
    path: '/api/v1/recordings',
    summary:
      'Records both wires of a session that is open, of the next session of a client or principal, or of one server.',
    query: { node: { description: 'Records at this node only; by default at all nodes.' } },
    body: START,
    status: 201,
    schema: RECORDING,
    errors: {
      400: 'Nothing is named that could be recorded, or a member is malformed.',
      404: 'There is no open session with this label, or no server of this name.',
      429: `There are ${MAX_RECORDINGS} recordings: delete one first.`,
      507: 'The recording cannot be written.',
    },
    async run({ body, query }, plane) {
      const wanted = bodyOf(START, body);
      if (typeof wanted === 'string') return problem(400, 'recording_malformed', wanted);
      return start(wanted, query.get('node'), plane);
    },
  }),
  GET_RECORDING,
  operation({
    id: 'stopRecording',
    method: 'POST',
    path: '/api/v1/recordings/{name}/stop',
    summary: 'Ends a recording and keeps it.',
    schema: RECORDING,
    query: NODE,
    errors: SILENT_ERRORS,
    merge: (parts) => (parts.length === 0 ? null : mergedRecording(parts)),
    run: ({ name }, plane) =>
      withRecording(name, plane, (recording) => {
        plane.recorder.stop(recording, 'it was stopped');
        return ok(viewAt(recording, plane));
      }),
  }),
  operation({
    id: 'deleteRecording',
    method: 'DELETE',
    path: '/api/v1/recordings/{name}',
    summary: 'Removes a recording and its file.',
    schema: REMOVED,
    query: NODE,
    errors: SILENT_ERRORS,
    merge: ([removed]) => removed ?? null,
    run: ({ name }, plane) =>
      withRecording(name, plane, (recording) => {
        plane.recorder.delete(recording);
        return ok({ removed: true });
      }),
  }),
  operation({
    id: 'replayRecording',
    method: 'POST',
    path: '/api/v1/replays',
    summary:
      'Sends the recorded requests to a server again, one after the other and as the operator, and compares the answers. Tools run.',
    query: { node: { description: 'The node that replays it; by default the one that answers.' } },
    body: REPLAY_REQUEST,
    maxBodyBytes: MAX_REPLAY_BYTES,
    schema: REPLAY,
    errors: REPLAY_ERRORS,
    async run(request, plane) {
      const wanted = await wantedReplay(request, plane);
      if ('status' in wanted) return wanted;
      const replayed = await plane.replay(wanted.jsonl, wanted, request.gone);
      return typeof replayed === 'string' ? problem(400, 'replay_impossible', replayed) : ok(replayed);
    },
  }),
  operation({
    id: 'writeReplayTest',
    method: 'POST',
    path: '/api/v1/replay-tests',
    summary:
      'Writes a test for `node --test` that sends the recorded requests to the endpoint of a server, with the key in `TRUNKLINE_KEY` if it is set, and asserts the answers.',
    query: { node: { description: 'The node whose endpoint it tests; by default the one that answers.' } },
    body: REPLAY_REQUEST,
    maxBodyBytes: MAX_REPLAY_BYTES,
    schema: REPLAY_TEST,
    errors: REPLAY_ERRORS,
    async run(request, plane) {
      const wanted = await wantedReplay(request, plane);
      if ('status' in wanted) return wanted;
      const written = plane.replayTest(wanted.jsonl, wanted);
      return 'problem' in written ? problem(400, 'replay_impossible', written.problem) : ok(written);
    },
  }),
];

/** The options of the replay and the text of the recording, or the refusal. */
async function wantedReplay(
  request: ControlRequest,
  plane: ControlPlane,
): Promise<(ReplayOptions & { readonly jsonl: string }) | ControlAnswer<never>> {
  const wanted = bodyOf(REPLAY_REQUEST, request.body);
  if (typeof wanted === 'string') return problem(400, 'replay_malformed', wanted);
  const { server, recording, ignore = [], of = null, jsonl = null } = wanted;
  if (plane.upstreams.status(server) === null) return noSuchServer(server, plane);
  if (jsonl !== null) return { server, of, ignore, jsonl };
  const kept = await runAtNodes(
    GET_RECORDING,
    { ...request, name: recording ?? '', query: new URLSearchParams() },
    plane,
  );
  if (!('status' in kept) || kept.status !== 200) return kept as ControlAnswer<never>;
  return { server, of, ignore, jsonl: (JSON.parse(kept.body.toString()) as { jsonl: string }).jsonl };
}

async function start(
  wanted: Infer<typeof START>,
  node: string | null,
  plane: ControlPlane,
): Promise<ControlAnswer<RecordingOfNodes>> {
  const { maxEntries, maxBytes } = RECORDING_LIMITS;
  const { session = null, client = null, principal = null, server = null } = wanted;
  if (session === null && client === null && principal === null && server === null) {
    return problem(400, 'recording_of_nothing', 'name a session, a client, a principal or a server');
  }
  if (server !== null && plane.upstreams.status(server) === null) {
    return noSuchServer(server, plane);
  }
  const sessionId = session === null ? null : await plane.sessionId(session);
  if (session !== null && sessionId === null) {
    return problem(404, 'session_unknown', 'there is no open session with this label');
  }
  const limits = {
    maxEntries: Math.min(wanted.maxEntries ?? maxEntries.default, maxEntries.most),
    maxBytes: Math.min(wanted.maxBytes ?? maxBytes.default, maxBytes.most),
  };
  try {
    const recording = await plane.recorder.start({ session, client, principal, server, node }, limits, sessionId);
    if (recording !== null) return ok(viewAt(recording, plane));
    return problem(429, 'too_many_recordings', `there are ${MAX_RECORDINGS} recordings: delete one first`);
  } catch (error) {
    return problem(507, 'recording_not_written', `the recording cannot be written: ${(error as Error).message}`);
  }
}

export function viewAt({ view }: Recording, { calls }: Pick<ControlPlane, 'calls'>): RecordingOfNodes {
  return { ...view, nodes: calls.node === null ? [] : [calls.node] };
}

async function withRecording<T>(
  id: string,
  { recorder }: ControlPlane,
  run: (recording: Recording) => ControlAnswer<T>,
): Promise<ControlAnswer<T>> {
  const recording = await recorder.get(id);
  return recording === null ? unknown(id) : run(recording);
}

function unknown(id: string): ControlAnswer<never> {
  return problem(404, 'recording_unknown', `there is no recording ${JSON.stringify(id.slice(0, 64))}`);
}
