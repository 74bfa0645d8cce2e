import { CallFilterError, callFilter } from '../model/call-filter.ts';
import type { CallRecord } from '../model/call-record.ts';
import { byTime } from '../telemetry/journal.ts';
import { LiveStream } from './live-stream.ts';
import { type ApiOperation, type ControlAnswer, namesOf, numberIn, ok, operation, problem } from './operation.ts';
import * as schemas from './schemas.ts';

const DEFAULT_CALLS = 100;
const FILTER = {
  description:
    'Only calls that match, such as `server:github status:error ms>500 -client:codex`; see the documentation of `trunkline calls`.',
  code: 'filter_malformed',
};

export const CALL_OPERATIONS: readonly ApiOperation[] = [
  operation({
    id: 'listCalls',
    method: 'GET',
    path: '/api/v1/calls',
    summary: 'The last requests of clients, oldest first, of all nodes. A node keeps 10,000.',
    query: {
      filter: FILTER,
      limit: { description: 'How many at most; 100 by default.', between: [1, 10_000], code: 'limit_malformed' },
    },
    schema: schemas.CALLS,
    merge(answers, { query }, absent) {
      const all = answers.flatMap(({ calls }) => calls).sort(byTime);
      return { calls: all.slice(-(numberIn(query, 'limit') ?? DEFAULT_CALLS)), silent: namesOf(absent) };
    },
    errors: { 400: 'The filter or the limit cannot be read.' },
    run({ query }, { calls }) {
      const wanted = readFilter(query.get('filter') ?? '');
      if (typeof wanted !== 'function') return wanted;
      return ok({ calls: calls.last(numberIn(query, 'limit') ?? DEFAULT_CALLS, wanted) });
    },
  }),
  operation({
    id: 'getCall',
    method: 'GET',
    path: '/api/v1/calls/{name}',
    summary: 'One request of a client, by its id.',
    schema: schemas.CALL,
    merge: (answers) => answers[0] ?? null,
    errors: { 404: 'No node keeps a call with that id.', 503: 'A node that may keep it does not answer.' },
    run({ name }, { calls }) {
      const found = calls.get(name);
      return found === null ? problem(404, 'call_unknown', 'no call with this id is kept') : ok(found);
    },
  }),
  operation({
    id: 'listRates',
    method: 'GET',
    path: '/api/v1/rates',
    summary: 'The calls of clients in each of the last 300 seconds, of all nodes.',
    schema: schemas.RATES,
    merge: (answers, _request, absent) => ({
      nodes: answers.flatMap(({ nodes }) => nodes),
      silent: namesOf(absent),
    }),
    run: (_request, { calls, rates }) => ok({ nodes: [{ node: calls.node, seconds: rates.seconds }] }),
  }),
  operation({
    id: 'streamLive',
    method: 'GET',
    path: '/api/v1/live',
    summary:
      'What happens at all nodes, for those who watch: events as of `streamEvents`, calls in batches, each second the rates of each server, and the log where it is asked for. It begins with `hello`; what came before is in the lists.',
    query: {
      filter: FILTER,
      logs: { description: 'Also the log of this server; of all with `*`.' },
    },
    streams: true,
    runsAt: 'all-nodes',
    schema: schemas.LIVE,
    errors: { 400: 'The filter cannot be read.' },
    run({ query }, plane) {
      const wanted = readFilter(query.get('filter') ?? '');
      if (typeof wanted !== 'function') return wanted;
      return { stream: (writer, ended) => new LiveStream(writer, plane, { wanted, logs: query.get('logs') }, ended) };
    },
  }),
];

function readFilter(text: string): ((call: CallRecord) => boolean) | ControlAnswer<never> {
  try {
    return callFilter(text);
  } catch (error) {
    if (!(error instanceof CallFilterError)) throw error;
    return problem(400, 'filter_malformed', error.message);
  }
}
