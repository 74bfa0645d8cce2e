import type { Caller } from '../registry/may-add.ts';
import type { ControlPlane } from './control-plane.ts';
import type { JournalReading } from './journal-stream.ts';

/** What an operation was asked, already authenticated. */
export interface ControlRequest {
  /** The `{name}` segment of the path; empty where the path has none. */
  readonly name: string;
  readonly query: URLSearchParams;
  /** The body as it came; empty for GET and DELETE. */
  readonly body: Buffer;
  /** What whoever asks may do beyond what the control token allows. */
  readonly caller: Caller;
  /** `Last-Event-ID`; null without one. */
  readonly lastEventId: string | null;
}

export interface ControlAnswer {
  readonly status: number;
  /** JSON text, or bytes that are JSON already. */
  readonly body: string | Buffer;
}

/** Goes on as an event stream until the client has enough. */
export interface StreamAnswer {
  readonly stream: JournalReading;
}

/** A JSON Schema, as it stands in the OpenAPI document. */
export type Schema = Readonly<Record<string, unknown>>;

/**
 * One operation of the control API: the route and its description in one place, so that the published OpenAPI
 * document cannot drift from what is served.
 */
export interface Operation {
  readonly id: string;
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** With at most one `{name}` segment. */
  readonly path: string;
  readonly summary: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly takesBody?: boolean;
  /** Longest body; that of tool arguments where it is missing. */
  readonly maxBodyBytes?: number;
  /** Of the good answer; 200 where it is missing. */
  readonly status?: 201;
  /** Answers with an event stream, of which each event is what `schema` says. */
  readonly streams?: boolean;
  /** Of the good answer. */
  readonly schema: Schema;
  /** Further statuses, with their meaning. */
  readonly errors?: Readonly<Record<number, string>>;
  run(request: ControlRequest, plane: ControlPlane): ControlAnswer | StreamAnswer | Promise<ControlAnswer>;
}

export function ok(value: unknown): ControlAnswer {
  return { status: 200, body: JSON.stringify(value) };
}

export function problem(status: number, code: string, message: string): ControlAnswer {
  return { status, body: JSON.stringify({ error: { code, message } }) };
}
