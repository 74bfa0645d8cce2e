import { GatewayError } from '../model/gateway-error.ts';
import { anyObject } from '../model/schema.ts';
import { ACCESS_OPERATIONS } from './access-operations.ts';
import { CALL_OPERATIONS } from './call-operations.ts';
import { CLIENT_OPERATIONS } from './client-operations.ts';
import { CLUSTER_OPERATIONS } from './cluster-operations.ts';
import { CONFIGURATION_OPERATIONS } from './configuration-operations.ts';
import { CONSOLE_OPERATIONS } from './console-operations.ts';
import type { CallLimits, ControlPlane } from './control-plane.ts';
import { CREDENTIAL_OPERATIONS } from './credential-operations.ts';
import { DEFINITION_OPERATIONS } from './definition-operations.ts';
import { DRIFT_OPERATIONS } from './drift-operations.ts';
import { JOURNAL_OPERATIONS, OF_SERVER } from './journal-operations.ts';
import { jsonObject } from './json-object.ts';
import {
  type ApiOperation,
  type ControlAnswer,
  type ControlRequest,
  NO_SUCH_SERVER,
  namesOf,
  noSuchServer,
  numberIn,
  ok,
  operation,
  problem,
  rawJson,
} from './operation.ts';
import { PLAYGROUND_OPERATIONS } from './playground-operations.ts';
import { RECORDING_OPERATIONS } from './recording-operations.ts';
import { REGISTRY_OPERATIONS } from './registry-operations.ts';
import { RUN_TIME_OPERATIONS } from './run-time-operations.ts';
import * as schemas from './schemas.ts';
import { SECRET_OPERATIONS } from './secret-operations.ts';
import { serverView, statusWithUsage } from './server-view.ts';
import { TASK_OPERATIONS } from './task-operations.ts';
import { TOOL_OPERATIONS } from './tool-operations.ts';

const CALL = {
  tool: { description: "The tool's own name." },
  timeoutMs: {
    description: "A limit shorter than the server's own, which holds in any case.",
    between: [1, 86_400_000] as const,
  },
};
const CALL_ERRORS = {
  ...NO_SUCH_SERVER,
  400: 'The tool is not named, the limit is no number, or the body is not a JSON object.',
};

/** All operations of the control API. `schema/openapi.json` is generated from this list. */
export const OPERATIONS: readonly ApiOperation[] = [
  operation({
    id: 'getGateway',
    method: 'GET',
    path: '/api/v1/gateway',
    summary: 'What runs here: version, addresses, configuration files, readiness.',
    schema: schemas.GATEWAY,
    run: (_request, plane) => ok({ ...plane.facts(), ...plane.readiness() }),
  }),
  operation({
    id: 'listGateways',
    method: 'GET',
    path: '/api/v1/gateways',
    summary: 'What runs at each node: version, addresses, configuration files, readiness.',
    schema: schemas.GATEWAYS,
    merge: (answers, _request, absent) => ({
      gateways: answers.flatMap(({ gateways }) => gateways),
      silent: namesOf(absent),
    }),
    run: (_request, plane) => ok({ gateways: [{ node: plane.calls.node, ...plane.facts(), ...plane.readiness() }] }),
  }),
  operation({
    id: 'stopGateway',
    method: 'POST',
    path: '/api/v1/gateway/stop',
    summary: 'Drains this gateway: it accepts nothing new, finishes its calls, and exits, as SIGTERM does.',
    query: { now: { description: '1: calls do not get the time to finish; 0 by default.', between: [0, 1] } },
    schema: schemas.STOPPING,
    errors: { 400: '`now` is neither 0 nor 1.', 409: 'A program has made this gateway, and ends it.' },
    run({ query }, plane) {
      if (plane.stop(query.get('now') === '1')) return ok({ stopping: plane.facts().pid });
      return problem(409, 'gateway_embedded', 'a program has made this gateway, and ends it');
    },
  }),
  operation({
    id: 'listServers',
    method: 'GET',
    path: '/api/v1/servers',
    summary: 'All servers with their status.',
    schema: schemas.SERVERS,
    run: (_request, plane) =>
      ok({
        servers: plane.upstreams.statuses().map((status) => serverView(status, plane)),
        cursor: plane.events.cursor(plane.events.end),
      }),
  }),
  operation({
    id: 'listInstances',
    method: 'GET',
    path: '/api/v1/instances',
    summary: 'The status of each server at each node that has it.',
    query: OF_SERVER,
    schema: schemas.INSTANCES,
    merge: (answers, _request, absent) => ({
      instances: answers.flatMap(({ instances }) => instances),
      silent: namesOf(absent),
    }),
    run({ query }, { calls, ownStatuses }) {
      const server = query.get('server');
      const wanted = ownStatuses().filter(({ name }) => server === null || name === server);
      return ok({
        instances: wanted.map(({ name, state, health, reason, nextRetryAt }) => ({
          server: name,
          node: calls.node,
          state,
          health,
          reason,
          nextRetryAt,
        })),
      });
    },
  }),
  operation({
    id: 'getServer',
    method: 'GET',
    path: '/api/v1/servers/{name}',
    summary: 'One server with its status.',
    schema: schemas.SERVER,
    errors: NO_SUCH_SERVER,
    runsAt: 'holder',
    async run({ name }, plane) {
      const status = await statusWithUsage(name, plane);
      return status === null ? noSuchServer(name, plane) : ok(serverView(status, plane));
    },
  }),
  operation({
    id: 'getServerConfiguration',
    method: 'GET',
    path: '/api/v1/servers/{name}/configuration',
    summary: 'How the server is defined: each value with the line that has it, and the defaults.',
    schema: schemas.WRITTEN_VALUES,
    errors: NO_SUCH_SERVER,
    runsAt: 'holder',
    run({ name }, plane) {
      const server = plane.server(name);
      return server === null ? noSuchServer(name, plane) : ok({ values: plane.writtenValues(server) });
    },
  }),
  operation({
    id: 'restartServer',
    method: 'POST',
    path: '/api/v1/servers/{name}/restart',
    summary: 'Stops and starts the server, at every node that runs it; answers when it is up again or has failed.',
    schema: schemas.SERVER,
    errors: {
      ...NO_SUCH_SERVER,
      409: 'The server is suspended, or disabled by its definition.',
      503: 'A node that runs the server does not answer, or none does; the others have restarted it. Or a node has no lease to start it again: nothing was restarted.',
    },
    async run({ name }, plane) {
      const before = plane.upstreams.status(name);
      if (before === null) return noSuchServer(name, plane);
      if (!before.definition.enabled) {
        const why = plane.desired(name)?.suspended === true ? 'suspended: resume it' : 'disabled by its definition';
        return problem(409, 'server_disabled', `${name} is ${why}`);
      }
      try {
        await plane.upstreams.restart(name);
      } catch (error) {
        if (!(error instanceof GatewayError)) throw error;
        return problem(503, 'server_unreachable', error.message);
      }
      const status = plane.upstreams.status(name);
      return status === null ? noSuchServer(name, plane) : ok(serverView(status, plane));
    },
  }),
  operation({
    id: 'callTool',
    method: 'POST',
    path: '/api/v1/servers/{name}/call',
    summary: "Calls a tool of the server as the operator. The body is the tool's arguments, one JSON object.",
    query: CALL,
    body: anyObject,
    schema: schemas.OUTCOME,
    errors: CALL_ERRORS,
    async run(request, plane) {
      const { name, query, body } = request;
      return (
        refuseCall(request, plane) ?? rawJson(await plane.callTool(name, query.get('tool')!, body, limits(request)))
      );
    },
  }),
  operation({
    id: 'streamCall',
    method: 'POST',
    path: '/api/v1/servers/{name}/call/stream',
    summary: 'The same as an event stream: what the server says of its progress, and at last the outcome.',
    query: CALL,
    body: anyObject,
    streams: true,
    schema: schemas.CALL_STEP,
    errors: CALL_ERRORS,
    run(request, plane) {
      const refused = refuseCall(request, plane);
      if (refused !== null) return refused;
      const { name, query, body } = request;
      return {
        steps(write) {
          const onProgress = (progress: object): void => write(JSON.stringify({ progress }));
          return plane.callTool(name, query.get('tool')!, body, { ...limits(request), onProgress });
        },
      };
    },
  }),
  ...JOURNAL_OPERATIONS,
  operation({
    id: 'listSessions',
    method: 'GET',
    path: '/api/v1/sessions',
    summary: 'The open sessions of clients; in a large cluster those of this node and those that were used last.',
    schema: schemas.SESSIONS,
    run: async (_request, plane) => ok(await plane.sessions()),
  }),
  operation({
    id: 'endSession',
    method: 'DELETE',
    path: '/api/v1/sessions/{name}',
    summary: 'Ends the session with this label, with everything that was only its own.',
    schema: schemas.SESSION_ENDED,
    errors: { 404: 'There is no session with that label.' },
    async run({ name }, plane) {
      const ended = await plane.endSession(name);
      return ended ? ok({ ended }) : problem(404, 'session_unknown', 'there is no open session with this label');
    },
  }),
  ...CALL_OPERATIONS,
  ...TOOL_OPERATIONS,
  ...PLAYGROUND_OPERATIONS,
  ...RECORDING_OPERATIONS,
  ...CONSOLE_OPERATIONS,
  ...CLUSTER_OPERATIONS,
  ...CREDENTIAL_OPERATIONS,
  ...SECRET_OPERATIONS,
  ...DRIFT_OPERATIONS,
  ...ACCESS_OPERATIONS,
  ...CONFIGURATION_OPERATIONS,
  ...CLIENT_OPERATIONS,
  ...TASK_OPERATIONS,
  ...RUN_TIME_OPERATIONS,
  ...DEFINITION_OPERATIONS,
  ...REGISTRY_OPERATIONS,
];

function refuseCall({ name, query, body }: ControlRequest, plane: ControlPlane): ControlAnswer<never> | null {
  if (plane.upstreams.status(name) === null) return noSuchServer(name, plane);
  if ((query.get('tool') ?? '') === '') return problem(400, 'tool_missing', 'name the tool: ?tool=…');
  if (jsonObject(body) === null) return problem(400, 'arguments_malformed', 'the body has to be one JSON object');
  return null;
}

/** A client that disconnects cancels its call. */
function limits({ query, gone }: ControlRequest): CallLimits {
  const timeoutMs = numberIn(query, 'timeoutMs');
  return { signal: gone, ...(timeoutMs === null ? {} : { timeoutMs }) };
}
