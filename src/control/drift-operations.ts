import type { DefinitionName, PinnedList } from '../model/drift.ts';
import { PINNED_LISTS } from '../model/drift.ts';
import type { ControlPlane } from './control-plane.ts';
import type { Decided } from './drift-plane.ts';
import { DRIFT_HISTORY, DRIFT_REPORT, LIST_OF_DRIFT } from './drift-schemas.ts';
import { isJsonObject } from './json-object.ts';
import { type ControlAnswer, type ControlRequest, type Operation, ok, problem } from './operation.ts';

const MAX_BODY_BYTES = 1024 * 1024;
const MAX_DECISIONS = 1_000;
const MAX_HISTORY = 500;
const OPERATOR = 'operator';

const NO_SUCH_SERVER = { 404: 'There is no server of that name.' };
const DECISION_ERRORS = {
  ...NO_SUCH_SERVER,
  400: 'The body is not what is described.',
  409: 'The server offers something else by now: look again. Or the nodes of the cluster share no store. Nothing was decided.',
  503: 'It cannot be stored; nothing was decided.',
};

/** A definition that is decided about, as a body names it. */
export interface NamedDefinition extends DefinitionName {
  /** As the report gave it: null for one that is gone. Absent where it does not matter. */
  readonly digest?: string | null;
}

/** What servers offer against what was approved of them: seen, approved, blocked. */
export const DRIFT_OPERATIONS: readonly Operation[] = [
  {
    id: 'listDrift',
    method: 'GET',
    path: '/api/v1/drift',
    summary: 'How every server stands to what was approved of it, with all that waits for a decision.',
    schema: LIST_OF_DRIFT,
    async run(_request, plane) {
      const servers: unknown[] = [];
      for (const { name } of plane.upstreams.servers()) servers.push(await plane.drift.report(name));
      return ok({ servers });
    },
  },
  {
    id: 'getDrift',
    method: 'GET',
    path: '/api/v1/servers/{name}/drift',
    summary: 'The same of one server.',
    schema: DRIFT_REPORT,
    errors: NO_SUCH_SERVER,
    run: (request, plane) => ofServer(request, plane, async () => ok(await plane.drift.report(request.name))),
  },
  {
    id: 'approveDefinitions',
    method: 'POST',
    path: '/api/v1/servers/{name}/drift/approve',
    summary:
      'Approves definitions as they were shown: `{"definitions":[{"list","key","digest"}]}`, all of them or none. A digest of null approves that it is gone.',
    takesBody: true,
    maxBodyBytes: MAX_BODY_BYTES,
    schema: DRIFT_REPORT,
    errors: DECISION_ERRORS,
    run: (request, plane) =>
      ofServer(request, plane, async () => {
        const named = namedIn(request.body);
        if (named === null || named.some(({ digest }) => digest === undefined)) return malformed();
        const decided = await plane.drift.approve(
          request.name,
          named.map((one) => ({ ...one, digest: one.digest ?? null })),
          OPERATOR,
        );
        return decided.ok ? ok(await plane.drift.report(request.name)) : refused(decided);
      }),
  },
  {
    id: 'blockDefinitions',
    method: 'POST',
    path: '/api/v1/servers/{name}/drift/block',
    summary:
      'Blocks names: `{"definitions":[{"list","key"}]}`. Nothing is offered under them and calls are refused, whatever the server says, until one is approved.',
    takesBody: true,
    maxBodyBytes: MAX_BODY_BYTES,
    schema: DRIFT_REPORT,
    errors: DECISION_ERRORS,
    run: (request, plane) =>
      ofServer(request, plane, async () => {
        const named = namedIn(request.body);
        if (named === null) return malformed();
        const decided = await plane.drift.block(request.name, named, OPERATOR);
        return decided.ok ? ok(await plane.drift.report(request.name)) : refused(decided);
      }),
  },
  {
    id: 'getDriftHistory',
    method: 'GET',
    path: '/api/v1/servers/{name}/drift/history',
    summary: 'What was seen of the server and decided about it, the newest first.',
    query: {
      limit: `How many; 100 by default, ${MAX_HISTORY} at most.`,
      after: 'The id of the last event of the page before.',
    },
    schema: DRIFT_HISTORY,
    errors: { ...NO_SUCH_SERVER, 400: 'The limit is no number.' },
    run: (request, plane) =>
      ofServer(request, plane, async () => {
        const limit = request.query.get('limit') ?? '100';
        if (!/^[1-9]\d{0,5}$/.test(limit)) return problem(400, 'limit_malformed', 'limit has to be a whole number');
        const after = request.query.get('after');
        const events = await plane.drift.history(request.name, {
          limit: Math.min(Number(limit), MAX_HISTORY),
          ...(after === null ? {} : { after: after.slice(0, 100) }),
        });
        return ok({ events: events.map(({ at, ...event }) => ({ ...event, at: new Date(at).toISOString() })) });
      }),
  },
];

/** Also of a server that is desired and has not been started. */
function ofServer({ name }: ControlRequest, plane: ControlPlane, run: () => Promise<ControlAnswer>) {
  if (plane.upstreams.status(name) !== null) return run();
  return problem(404, 'server_unknown', `there is no server named ${JSON.stringify(name.slice(0, 64))}`);
}

function namedIn(body: Buffer): readonly NamedDefinition[] | null {
  if (!isJsonObject(body)) return null;
  const { definitions } = JSON.parse(body.toString()) as { readonly definitions?: unknown };
  if (!Array.isArray(definitions) || definitions.length === 0 || definitions.length > MAX_DECISIONS) return null;
  const named: NamedDefinition[] = [];
  for (const one of definitions as readonly unknown[]) {
    if (typeof one !== 'object' || one === null) return null;
    const { list, key, digest } = one as Record<string, unknown>;
    if (!PINNED_LISTS.includes(list as PinnedList) || typeof key !== 'string') return null;
    if (digest !== undefined && digest !== null && typeof digest !== 'string') return null;
    named.push({ list: list as PinnedList, key, ...(digest === undefined ? {} : { digest }) });
  }
  return named;
}

function malformed(): ControlAnswer {
  const example = '{"definitions":[{"list":"tools","key":"name","digest":"…"}]}';
  return problem(
    400,
    'definitions_malformed',
    `the body has to be like ${example}, with up to ${MAX_DECISIONS} definitions`,
  );
}

function refused({ code, message }: Exclude<Decided, { readonly ok: true }>): ControlAnswer {
  switch (code) {
    case 'outdated':
      return problem(409, 'definition_outdated', message);
    case 'no_shared_store':
      return problem(409, code, message);
    case 'not_stored':
      return problem(503, 'decision_not_stored', message);
  }
}
