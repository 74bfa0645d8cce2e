import { type ConfigProblem, suggest } from '../config/problem/problem.ts';
import type { SseWriter } from '../http/sse/sse-writer.ts';
import type { Schema } from '../model/schema.ts';
import { type Caller, type RunTimeCode, RunTimeProblem } from '../registry/run-time-problem.ts';
import type { ConsoleSession } from './console-logins.ts';
import type { AbsentNode, ControlPlane, TellStep } from './control-plane.ts';

/** What an operation is asked; the caller is authenticated, and the parameters are what the operation declares. */
export interface ControlRequest {
  /** The `{name}` segment of the path; empty where the path has none. */
  readonly name: string;
  readonly query: URLSearchParams;
  /** The body as it came; empty for GET and DELETE. */
  readonly body: Buffer;
  /** What the caller may do beyond what the control token allows. */
  readonly caller: Caller;
  /** `Last-Event-ID`; null without one. */
  readonly lastEventId: string | null;
  /** The client has gone before its answer was complete. */
  readonly gone: AbortSignal;
  /** Of the console, where it asks; null for programs. */
  readonly session: ConsoleSession | null;
  /** The browser speaks TLS, to this listener or to a proxy in front of it. */
  readonly secure: boolean;
}

declare const ANSWER: unique symbol;

/** An answer whose body is a `T`. */
export interface ControlAnswer<T = unknown> {
  readonly status: number;
  /** JSON text, or bytes that are JSON already. */
  readonly body: string | Buffer;
  /** Name and value alternating. */
  readonly headers?: readonly string[];
  readonly [ANSWER]?: T;
}

/** What an event stream is written to. */
export type EventWriter = Pick<SseWriter, 'event' | 'end' | 'closed' | 'onDrain' | 'onClose'>;

/** Goes on as an event stream until the client ends it; `ended` is called once then. `close` ends it from this side. */
export interface StreamAnswer {
  readonly stream: (writer: EventWriter, ended: () => void) => { close(): void };
}

/** An event stream of its own: `steps` tells what happens, and resolves with the last step, which no client misses. */
export interface StepsAnswer {
  readonly steps: (tell: TellStep) => Promise<Buffer>;
}

/** A query parameter: what it means and which values are valid. */
export interface Parameter {
  readonly description: string;
  readonly schema?: Schema<string>;
  /** A whole number in decimal digits, from the first to the second. */
  readonly between?: readonly [number, number];
  /** Code of the error for another value; `parameter_malformed` where it is missing. */
  readonly code?: string;
}

/**
 * One operation of the control API: route, parameters, schemas and implementation in one place. The OpenAPI document, the
 * validation of parameters and the types of answers come from it.
 */
export interface ApiOperation<T = unknown> {
  readonly id: string;
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** With at most one `{name}` segment. */
  readonly path: string;
  readonly summary: string;
  readonly query?: Readonly<Record<string, Parameter>>;
  /** Of the request body; without one the operation takes none. */
  readonly body?: Schema;
  /** The longest body; that of tool arguments where it is missing. */
  readonly maxBodyBytes?: number;
  /** Of the good answer; 200 where it is missing. */
  readonly status?: 201;
  /** Needs neither token nor session. */
  readonly open?: true;
  /**
   * `this-node` refuses `?node=`. Unless `?node=` names a node, `holder` asks one that has the server, and `all-nodes` streams
   * what happens at all of them. By default it runs at the node that `?node=` names or that is asked.
   */
  readonly runsAt?: 'this-node' | 'holder' | 'all-nodes';
  /** Answers with an event stream, of which each event is what `schema` says. */
  readonly streams?: boolean;
  /** Of the good answer. */
  readonly schema: Schema<T>;
  /** The good answer repeats what its caller has sent, who needs it as it is: nothing in it is masked. */
  readonly echoes?: true;
  /**
   * One answer of the good answers of all nodes, this one's first; null where they make none. `absent`: the nodes of which
   * nothing is in it. With it the operation is run at all nodes, unless `?node=` names one.
   */
  readonly merge?: (answers: readonly T[], request: ControlRequest, absent: readonly AbsentNode[]) => T | null;
  /** Further statuses, with their meaning. */
  readonly errors?: Readonly<Record<number, string>>;
  run(
    request: ControlRequest,
    plane: ControlPlane,
  ): ControlAnswer<NoInfer<T>> | StreamAnswer | StepsAnswer | Promise<ControlAnswer<NoInfer<T>>>;
}

/** Checks that an operation answers what its schema says. */
export function operation<T>(one: ApiOperation<T>): ApiOperation {
  return one as ApiOperation;
}

export function ok<T>(value: T): ControlAnswer<T> {
  return { status: 200, body: JSON.stringify(value) };
}

/** An answer whose JSON is written already. */
export function written(body: string | Buffer): ControlAnswer<never> {
  return { status: 200, body };
}

export function problem(status: number, code: string, message: string): ControlAnswer<never> {
  return { status, body: JSON.stringify({ error: { code, message } }) };
}

export const NO_SUCH_SERVER = { 404: 'There is no server of that name.' };

export function noSuchServer(name: string, { upstreams }: Pick<ControlPlane, 'upstreams'>): ControlAnswer<never> {
  const names = upstreams.statuses().map((server) => server.name);
  const shown = JSON.stringify(name.slice(0, 64));
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

/** The answer of `run`, or that to the RunTimeProblem that it rejects with. */
export async function refusable<T>(run: () => Promise<ControlAnswer<T>>): Promise<ControlAnswer<T>> {
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

/** As `check` prints it; the file is the body. */
export function shownProblem({ file: _, ...rest }: ConfigProblem) {
  return rest;
}

/** The number of a parameter that declares `between`; null where it is absent. */
export function numberIn(query: URLSearchParams, name: string): number | null {
  const value = query.get(name);
  return value === null ? null : Number(value);
}

/** The names of the nodes that a list of all nodes has nothing of. */
export function namesOf(absent: readonly AbsentNode[]): readonly string[] {
  return absent.map(({ node }) => node).sort();
}

/** Of operations about one node. */
export const NODE_PARAMETER = {
  node: { description: 'Of this node of the cluster; by default of the one that answers.' },
} satisfies Readonly<Record<string, Parameter>>;

/** The refusal of the first parameter that is not what the operation declares; null when all are. */
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
