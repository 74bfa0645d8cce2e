import { type ConfigProblem, suggest } from '../config/problem/problem.ts';
import type { SseWriter } from '../http/sse/sse-writer.ts';
import type { Schema } from '../model/schema.ts';
import { type Caller, type RunTimeCode, RunTimeProblem } from '../registry/run-time-problem.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { ConsoleSession } from './console-logins.ts';
import type { AbsentNode, ControlPlane, SendStep } from './control-plane.ts';

/** Request to an operation. The caller is authenticated, and the parameters are as the operation declares them. */
export interface ControlRequest {
  /** The `{name}` segment of the path; empty if the path has none. */
  readonly name: string;
  readonly query: URLSearchParams;
  /** Unparsed body; empty for GET and DELETE. */
  readonly body: Buffer;
  /** Rights of the caller beyond those of the control token. */
  readonly caller: Caller;
  /** `Last-Event-ID`; null without one. */
  readonly lastEventId: string | null;
  /** Aborted if the client disconnects before its answer is complete. */
  readonly gone: AbortSignal;
  /** The console session of the caller; null for a program. */
  readonly session: ConsoleSession | null;
  /** The browser speaks TLS, to this listener or to a proxy in front of it. */
  readonly secure: boolean;
}

declare const ANSWER: unique symbol;

/** An answer whose body is a `T`. */
export interface ControlAnswer<T = unknown> {
  readonly status: number;
  /** JSON text, as a string or as bytes. */
  readonly body: string | Buffer;
  /** Names and values alternate. */
  readonly headers?: readonly string[];
  readonly [ANSWER]?: T;
}

/** The part of SseWriter that event streams use. */
export type EventWriter = Pick<SseWriter, 'event' | 'end' | 'closed' | 'onDrain' | 'onClose'>;

/** An event stream that lasts until the client ends it, which calls `ended` once. `close` ends it from the gateway's side. */
export interface StreamAnswer {
  readonly stream: (writer: EventWriter, ended: () => void) => { close(): void };
}

/** A finite event stream: `steps` passes each step to `sendStep` and resolves with the last one, which is never dropped. */
export interface StepsAnswer {
  readonly steps: (sendStep: SendStep) => Promise<Buffer>;
}

/** A query parameter: what it means and which values are valid. */
export interface Parameter {
  readonly description: string;
  readonly schema?: Schema<string>;
  /** Bounds, inclusive, of a whole number in decimal digits. */
  readonly between?: readonly [number, number];
  /** Error code for an invalid value; `parameter_malformed` by default. */
  readonly code?: string;
}

/**
 * One operation of the control API: route, parameters, schemas and implementation. The OpenAPI document, the validation of
 * parameters and the types of answers are derived from it.
 */
export interface ApiOperation<T = unknown> {
  readonly id: string;
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** With at most one `{name}` segment. */
  readonly path: string;
  readonly summary: string;
  readonly query?: Readonly<Record<string, Parameter>>;
  /** Schema of the request body; without it the operation accepts no body. */
  readonly body?: Schema;
  /** Maximum length of the body; that of tool arguments by default. */
  readonly maxBodyBytes?: number;
  /** Status of a successful answer; 200 by default. */
  readonly status?: 201;
  /** Needs neither token nor session. */
  readonly unauthenticated?: true;
  /**
   * `this-node` refuses `?node=`. Without `?node=`, `holder` forwards to a node that has the server, and `all-nodes` streams from
   * all nodes. By default the operation runs at the node that `?node=` names, else at the one that received the request.
   */
  readonly runsAt?: 'this-node' | 'holder' | 'all-nodes';
  /** Answers with an event stream; `schema` describes one event. */
  readonly streams?: boolean;
  /** Schema of a successful answer. */
  readonly schema: Schema<T>;
  /** A successful answer contains texts of its caller, who needs them unchanged: it is not redacted. */
  readonly unredacted?: true;
  /**
   * Merges the successful answers of all nodes, this node's first; null if they yield none. `absent`: the nodes without an
   * answer. An operation with `merge` runs at all nodes, unless `?node=` names one.
   */
  readonly merge?: (answers: readonly T[], request: ControlRequest, absent: readonly AbsentNode[]) => T | null;
  /** Further statuses, with their meaning. */
  readonly errors?: Readonly<Record<number, string>>;
  run(
    request: ControlRequest,
    plane: ControlPlane,
  ): ControlAnswer<NoInfer<T>> | StreamAnswer | StepsAnswer | Promise<ControlAnswer<NoInfer<T>>>;
}

/** Checks at compile time that the answers of an operation have the type of its schema. */
export function operation<T>(one: ApiOperation<T>): ApiOperation {
  return one as ApiOperation;
}

export function ok<T>(value: T): ControlAnswer<T> {
  return { status: 200, body: JSON.stringify(value) };
}

/** An answer whose body is JSON already. */
export function rawJson(body: string | Buffer): ControlAnswer<never> {
  return { status: 200, body };
}

export function problem(status: number, code: string, message: string): ControlAnswer<never> {
  return { status, body: JSON.stringify({ error: { code, message } }) };
}

export const NO_SUCH_SERVER = { 404: 'There is no server of that name.' };

export function noSuchServer(
  name: string,
  { upstreams, cluster }: Pick<ControlPlane, 'upstreams' | 'cluster'>,
): ControlAnswer<never> {
  const names = upstreams.statuses().map((server) => server.name);
  const shown = JSON.stringify(name.slice(0, 64));
  const holder = cluster?.holder(name) ?? null;
  if (holder !== null) {
    const message = `node ${holder} has the server ${shown}, and this node has not: ask that node, or add ?node=${holder}`;
    return problem(404, 'server_unknown', message);
  }
  if (names.includes(name)) {
    return problem(404, 'server_unknown', `no node has the server ${shown} now: the one that had it does not answer`);
  }
  const near = suggest(name, names);
  const hint = near === null ? '' : `; did you mean ${JSON.stringify(near)}?`;
  return problem(404, 'server_unknown', `there is no server named ${shown}${hint}`);
}

const STATUS: Readonly<Record<RunTimeCode, number>> = {
  definition_invalid: 422,
  definition_too_large: 413,
  name_taken: 409,
  no_such_server: 404,
  not_added_here: 409,
  exec_required: 403,
  revision_changed: 409,
  too_many: 429,
  no_such_session: 404,
  disabled_by_definition: 409,
  no_shared_store: 409,
  definition_outdated: 409,
  decision_not_stored: 503,
  store_full: 507,
  outcome_unknown: 503,
  store_unavailable: 503,
};

/** Runs `run` and maps a RunTimeProblem to an answer. */
export async function mapRunTimeProblems<T>(run: () => Promise<ControlAnswer<T>>): Promise<ControlAnswer<T>> {
  try {
    return await run();
  } catch (error) {
    if (!(error instanceof RunTimeProblem)) throw error;
    const { code, message, problems } = error;
    if (problems.length === 0) return problem(STATUS[code], code, message);
    const shown = problems.map(shownProblem);
    return { status: STATUS[code], body: JSON.stringify({ error: { code, message, problems: shown } }) };
  }
}

/** The problem as `check` prints it, without the file: the text is the request body. */
export function shownProblem({ file: _, ...rest }: ConfigProblem) {
  return rest;
}

/** The body for the caller. It is redacted, except answers of tools and of operations with `unredacted`. */
export function redactedBody(
  { id, unredacted }: ApiOperation,
  { status, body }: ControlAnswer,
  logger: Pick<Logger, 'redactJson'>,
): string | Buffer {
  const isCallers = id === 'callTool' || (unredacted === true && status === 200);
  return isCallers ? body : logger.redactJson(body.toString());
}

/** The number in a parameter that declares `between`; null if it is absent. */
export function numberIn(query: URLSearchParams, name: string): number | null {
  const value = query.get(name);
  return value === null ? null : Number(value);
}

/** The names of the nodes whose entries a list lacks. */
export function namesOf(absent: readonly AbsentNode[]): readonly string[] {
  return absent.map(({ node }) => node).sort();
}

/** Parameter of operations on one node. */
export const NODE_PARAMETER = {
  node: { description: 'Of this node of the cluster; by default of the one that answers.' },
} satisfies Readonly<Record<string, Parameter>>;

/** The refusal of the first parameter that is not as the operation declares it; null if all are valid. */
export function refuseParameters({ query = {} }: ApiOperation, given: URLSearchParams): ControlAnswer | null {
  for (const [name, { between, schema, code = 'parameter_malformed' }] of Object.entries(query)) {
    const value = given.get(name);
    if (value === null) continue;
    if (between !== undefined && !isWholeNumber(value, between)) {
      return problem(400, code, `${name} has to be a whole number from ${between[0]} to ${between[1]}`);
    }
    if (schema?.['pattern'] !== undefined && !new RegExp(schema['pattern'] as string, 'u').test(value)) {
      return problem(400, code, `${name} has to be ${schema['description'] as string}`);
    }
  }
  return null;
}

function isWholeNumber(value: string, [least, most]: readonly [number, number]): boolean {
  return /^\d{1,16}$/.test(value) && Number(value) >= least && Number(value) <= most;
}
