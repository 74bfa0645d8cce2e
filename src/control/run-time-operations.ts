import { pause } from '../model/clock.ts';
import { object, type Schema, text } from '../model/schema.ts';
import type { ServerStatus } from '../model/server-state.ts';
import { RunTimeProblem } from '../registry/run-time-problem.ts';
import type { Lifetime } from '../registry/temporary-servers.ts';
import type { ControlPlane } from './control-plane.ts';
import { jsonObject } from './json-object.ts';
import {
  type ApiOperation,
  type ControlAnswer,
  type ControlRequest,
  mapRunTimeProblems,
  NO_SUCH_SERVER,
  numberIn,
  ok,
  operation,
  problem,
} from './operation.ts';
import { REMOVED, SERVER, type ServerView } from './schemas.ts';
import { serverView } from './server-view.ts';

/** Far more than a definition needs. */
const MAX_BODY_BYTES = 256 * 1024;
const SHORTEST_TTL_MS = 1_000;
const LONGEST_TTL_MS = 7 * 24 * 60 * 60 * 1000;

/** Nodes apply a change in the shared store within three seconds. */
const APPLY_TIMEOUT_MS = 5_000;
const LOOK_MS = 50;

const BAD_REQUEST = 'The body is not one JSON object, or a parameter is invalid.';
const WRITE_ERRORS = {
  403: 'The definition does more than the control token alone allows (servers:exec).',
  409: 'The name is taken, the server is not one added at run time, or another client has changed it meanwhile.',
  413: 'The definition is too large.',
  415: 'The body is not application/json.',
  422: 'The definition is invalid; `problems` says everything that is wrong, as of a file.',
  429: 'There are too many already.',
  503: 'The store of run-time changes cannot be used; nothing was changed.',
  507: 'The disk is full; nothing was changed.',
};

const REVISION = {
  revision: {
    description: 'Refused with 409 unless this is the revision of the server (`desired.revision`).',
    between: [1, Number.MAX_SAFE_INTEGER] as const,
  },
};
const FOLDER = {
  description: 'Folder that relative paths of the definition start from; that of the gateway by default.',
  schema: { ...text, description: 'an absolute path', pattern: '^/[^\\0]{0,4095}$' },
};
/** Definition of a server, as in a configuration file. */
const DEFINITION: Schema = { $ref: 'config.schema.json#/$defs/server' };
/** The same with a name. That schema allows no further member, so this one cannot refer to it. */
const NAMED_DEFINITION: Schema = {
  ...object({ name: text }),
  additionalProperties: true,
  description: 'The other members are those of `config.schema.json#/$defs/server`.',
};

/** Changes of servers at run time. They answer once the change is durable and in force; the start of a server continues. */
export const RUN_TIME_OPERATIONS: readonly ApiOperation[] = [
  operation({
    id: 'addServer',
    method: 'POST',
    path: '/api/v1/servers',
    summary:
      'Adds a server. The body is its definition as in a file, with its `name`. It outlives restarts, unless it is for a session or a while.',
    query: {
      ttlMs: {
        description: 'The gateway removes the server after so many milliseconds, and when it ends.',
        between: [SHORTEST_TTL_MS, LONGEST_TTL_MS],
      },
      session: {
        description: 'The gateway removes the server with the client session of this label, and when it ends.',
      },
      folder: FOLDER,
    },
    body: NAMED_DEFINITION,
    maxBodyBytes: MAX_BODY_BYTES,
    status: 201,
    schema: SERVER,
    errors: { 400: BAD_REQUEST, 404: 'There is no such session.', ...WRITE_ERRORS },
    run: (request, plane) =>
      withDefinition(request, async () => {
        const definition = definitionOf(request, null);
        const lifetime = await lifetimeOf(request.query, plane);
        const { server } = await plane.runTime.add(definition, request.caller, lifetime);
        return shown(plane, server.name);
      }),
  }),
  operation({
    id: 'changeServer',
    method: 'PUT',
    path: '/api/v1/servers/{name}',
    summary:
      'Replaces the definition of a server that was added at run time. What the change does not concern goes on.',
    query: { ...REVISION, folder: FOLDER },
    body: DEFINITION,
    maxBodyBytes: MAX_BODY_BYTES,
    schema: SERVER,
    errors: { 400: BAD_REQUEST, ...NO_SUCH_SERVER, ...WRITE_ERRORS },
    run: (request, plane) =>
      withDefinition(request, async () => {
        const definition = definitionOf(request, request.name);
        await plane.runTime.change(request.name, definition, request.caller, numberIn(request.query, 'revision'));
        return shown(plane, request.name);
      }),
  }),
  operation({
    id: 'removeServer',
    method: 'DELETE',
    path: '/api/v1/servers/{name}',
    summary: 'Removes a server that was added at run time. What is in flight may finish; then its processes end.',
    query: REVISION,
    schema: REMOVED,
    errors: pick(400, 404, 409, 503, 507),
    run: ({ name, query }, plane) =>
      mapRunTimeProblems(async () => {
        await plane.runTime.remove(name, numberIn(query, 'revision'));
        return ok({ removed: true });
      }),
  }),
  operation({
    id: 'suspendServer',
    method: 'POST',
    path: '/api/v1/servers/{name}/suspend',
    summary: 'Ends the server and keeps it so, over restarts, until it is resumed. Servers of files too.',
    schema: SERVER,
    errors: pick(404, 409, 429, 503, 507),
    run: ({ name }, plane) =>
      mapRunTimeProblems(async () => {
        const before = plane.upstreams.status(name);
        await plane.runTime.suspend(name);
        return plane.desired(name) === null && before !== null ? suspendedElsewhere(plane, before) : shown(plane, name);
      }),
  }),
  operation({
    id: 'resumeServer',
    method: 'POST',
    path: '/api/v1/servers/{name}/resume',
    summary: 'Lets a suspended server run again.',
    schema: SERVER,
    errors: { ...pick(404, 503, 507), 409: 'The server is disabled by its own definition.' },
    run: ({ name }, plane) =>
      mapRunTimeProblems(async () => {
        await plane.runTime.resume(name);
        return shown(plane, name);
      }),
  }),
];

function pick(...statuses: readonly number[]): Readonly<Record<number, string>> {
  const all: Readonly<Record<number, string>> = {
    400: 'A parameter is invalid.',
    ...NO_SUCH_SERVER,
    ...WRITE_ERRORS,
  };
  return Object.fromEntries(statuses.map((status) => [status, all[status]!]));
}

function withDefinition<T>({ body }: ControlRequest, run: () => Promise<ControlAnswer<T>>) {
  if (jsonObject(body) !== null) return mapRunTimeProblems(run);
  return problem(400, 'body_malformed', 'the body has to be one JSON object: the definition');
}

function definitionOf({ body, query }: ControlRequest, name: string | null) {
  const folder = query.get('folder');
  return { text: body.toString(), name, folder };
}

async function lifetimeOf(query: URLSearchParams, plane: ControlPlane): Promise<Lifetime | null> {
  const ttlMs = numberIn(query, 'ttlMs');
  const label = query.get('session');
  if (ttlMs === null && label === null) return null;
  const sessionId = label === null ? null : await plane.sessionId(label);
  if (label !== null && sessionId === null) {
    throw new RunTimeProblem('no_such_session', 'there is no open session with this label');
  }
  return { expiresAt: ttlMs === null ? null : plane.clock.wall() + ttlMs, sessionId };
}

/** Waits for the server, since nodes advertise their servers with a delay. A temporary server may have ended already. */
async function shown(plane: ControlPlane, name: string): Promise<ControlAnswer<ServerView>> {
  const status = () => plane.upstreams.status(name);
  if (await waitUntilApplied(plane, () => status() !== null)) return ok(serverView(status()!, plane));
  return problem(404, 'no_such_server', 'the server was removed meanwhile, or a file hides it, or no node runs it yet');
}

/** Waits until the nodes that have the server no longer advertise it: this node does not have it. */
async function suspendedElsewhere(plane: ControlPlane, before: ServerStatus): Promise<ControlAnswer<ServerView>> {
  const { definition, name } = before;
  const suspended = { ...before, state: 'suspended' as const, definition: { ...definition, enabled: false } };
  if (await waitUntilApplied(plane, () => plane.upstreams.status(name) === null))
    return ok(serverView(suspended, plane));
  return problem(
    503,
    'server_unreachable',
    `${name} is suspended in the store, and the nodes that have it run it still`,
  );
}

/** Waits while nodes apply a change in the shared store; resolves with whether `isApplied` holds. */
async function waitUntilApplied(plane: ControlPlane, isApplied: () => boolean): Promise<boolean> {
  for (let waitedMs = 0; !isApplied() && waitedMs < APPLY_TIMEOUT_MS; waitedMs += LOOK_MS)
    await pause(plane.clock, LOOK_MS);
  return isApplied();
}
