import { DRIFT_HISTORY, DRIFT_REPORT, type DriftReport, PINNED_LISTS } from '../model/drift.ts';
import { list, nullable, object, oneOf, type Schema, text } from '../model/schema.ts';
import type { ControlPlane } from './control-plane.ts';
import { bodyOf } from './json-object.ts';
import {
  type ApiOperation,
  type ControlAnswer,
  type ControlRequest,
  mapRunTimeProblems,
  NO_SUCH_SERVER,
  noSuchServer,
  numberIn,
  ok,
  operation,
  problem,
} from './operation.ts';
import { DRIFT } from './schemas.ts';

const MAX_BODY_BYTES = 1024 * 1024;
const MAX_DECISIONS = 1_000;
const MAX_HISTORY = 500;
const DEFAULT_HISTORY = 100;
const OPERATOR = 'operator';

const DECISION_ERRORS = {
  ...NO_SUCH_SERVER,
  400: 'The body is not what is described.',
  409: 'The server offers something else by now: look again. Nothing was decided.',
  503: 'It cannot be stored; nothing was decided.',
};

const NAME = { list: oneOf(PINNED_LISTS), key: text };
/** Definitions to approve, with their digests from the report: null for a removed one. */
const DECISIONS = object({
  definitions: { ...list(object({ ...NAME, digest: nullable(text) })), minItems: 1, maxItems: MAX_DECISIONS },
});
const NAMES = object({ definitions: { ...list(object(NAME)), minItems: 1, maxItems: MAX_DECISIONS } });

/** Differences between offered and approved definitions, and decisions about them. */
export const DRIFT_OPERATIONS: readonly ApiOperation[] = [
  operation({
    id: 'listDrift',
    method: 'GET',
    path: '/api/v1/drift',
    summary: 'How every server differs from what was approved of it, with all that waits for a decision.',
    schema: DRIFT,
    async run(_request, plane) {
      const servers: DriftReport[] = [];
      for (const { name } of plane.upstreams.servers()) servers.push(await plane.drift.report(name));
      return ok({ servers });
    },
  }),
  operation({
    id: 'getDrift',
    method: 'GET',
    path: '/api/v1/servers/{name}/drift',
    summary: 'The same of one server.',
    schema: DRIFT_REPORT,
    errors: NO_SUCH_SERVER,
    run: (request, plane) => ofServer(request, plane, async () => ok(await plane.drift.report(request.name))),
  }),
  operation({
    id: 'approveDefinitions',
    method: 'POST',
    path: '/api/v1/servers/{name}/drift/approve',
    summary:
      'Approves definitions as they were shown: `{"definitions":[{"list","key","digest"}]}`, all of them or none. A digest of null approves that it is gone.',
    body: DECISIONS,
    maxBodyBytes: MAX_BODY_BYTES,
    schema: DRIFT_REPORT,
    errors: DECISION_ERRORS,
    run: (request, plane) =>
      decide(request, plane, DECISIONS, ({ definitions }) => plane.drift.approve(request.name, definitions, OPERATOR)),
  }),
  operation({
    id: 'blockDefinitions',
    method: 'POST',
    path: '/api/v1/servers/{name}/drift/block',
    summary:
      'Blocks names: `{"definitions":[{"list","key"}]}`. Nothing is offered under them and calls are refused, whatever the server says, until one is approved.',
    body: NAMES,
    maxBodyBytes: MAX_BODY_BYTES,
    schema: DRIFT_REPORT,
    errors: DECISION_ERRORS,
    run: (request, plane) =>
      decide(request, plane, NAMES, ({ definitions }) => plane.drift.block(request.name, definitions, OPERATOR)),
  }),
  operation({
    id: 'getDriftHistory',
    method: 'GET',
    path: '/api/v1/servers/{name}/drift/history',
    summary: 'What was seen of the server and decided about it, the newest first.',
    query: {
      limit: {
        description: `How many; 100 by default, ${MAX_HISTORY} at most.`,
        between: [1, 999_999],
        code: 'limit_malformed',
      },
      after: { description: 'The id of the last event of the page before.' },
    },
    schema: DRIFT_HISTORY,
    errors: { ...NO_SUCH_SERVER, 400: 'The limit is no number.' },
    run: (request, plane) =>
      ofServer(request, plane, async () => {
        const limit = numberIn(request.query, 'limit') ?? DEFAULT_HISTORY;
        const after = request.query.get('after');
        const events = await plane.drift.history(request.name, {
          limit: Math.min(limit, MAX_HISTORY),
          ...(after === null ? {} : { after: after.slice(0, 100) }),
        });
        return ok({ events: events.map(({ at, ...event }) => ({ ...event, at: new Date(at).toISOString() })) });
      }),
  }),
];

/** Accepts any known server, also one that has not been started. */
function ofServer<T>({ name }: ControlRequest, plane: ControlPlane, run: () => Promise<ControlAnswer<T>>) {
  return plane.upstreams.status(name) === null ? noSuchServer(name, plane) : run();
}

/** Answers with the report of the server after the decision. */
function decide<T extends object>(
  request: ControlRequest,
  plane: ControlPlane,
  schema: Schema<T>,
  take: (decision: T) => Promise<void>,
) {
  return ofServer(request, plane, async () => {
    const decision = bodyOf(schema, request.body);
    if (typeof decision === 'string') return problem(400, 'definitions_malformed', decision);
    return mapRunTimeProblems(async () => {
      await take(decision);
      return ok(await plane.drift.report(request.name));
    });
  });
}
