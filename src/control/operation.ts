import type { ControlPlane } from './control-plane.ts';

/** What an operation was asked, already authenticated. */
export interface ControlRequest {
  /** The `{name}` segment of the path; empty where the path has none. */
  readonly name: string;
  readonly query: URLSearchParams;
  /** The body as it came; empty for GET and DELETE. */
  readonly body: Buffer;
}

export interface ControlAnswer {
  readonly status: number;
  /** JSON text, or bytes that are JSON already. */
  readonly body: string | Buffer;
}

/** A JSON Schema, as it stands in the OpenAPI document. */
export type Schema = Readonly<Record<string, unknown>>;

/**
 * One operation of the control API: the route and its description in one place, so that the published OpenAPI
 * document cannot drift from what is served.
 */
export interface Operation {
  readonly id: string;
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** With at most one `{name}` segment. */
  readonly path: string;
  readonly summary: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly takesBody?: boolean;
  /** Of the answer with status 200. */
  readonly schema: Schema;
  /** Further statuses, with their meaning. */
  readonly errors?: Readonly<Record<number, string>>;
  run(request: ControlRequest, plane: ControlPlane): ControlAnswer | Promise<ControlAnswer>;
}

export function ok(value: unknown): ControlAnswer {
  return { status: 200, body: JSON.stringify(value) };
}

export function problem(status: number, code: string, message: string): ControlAnswer {
  return { status, body: JSON.stringify({ error: { code, message } }) };
}
