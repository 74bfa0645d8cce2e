import { capabilitiesOf, isStateless, type MatrixRevision } from './revisions.ts';

/** What the matrix tries, in the order of the table. */
export const FEATURES = {
  call: 'tool calls',
  progress: 'progress',
  log: 'log messages of a call, by level',
  cancel: 'cancellation',
  sampling: 'sampling',
  form: 'elicitation by form',
  url: 'elicitation by URL',
  roots: 'roots',
  several: 'several input requests at once',
  outside: 'an input request outside any call',
  subscribe: 'resource subscriptions',
  changed: 'changed lists',
  completion: 'completion',
  pagination: 'pagination',
  errors: 'kinds of errors',
  tasks: 'tasks',
} as const;
export type Feature = keyof typeof FEATURES;

/** Why a cell cannot work, and what the client gets instead. */
export interface Impossible {
  /** The JSON-RPC code that the client gets. */
  readonly code: number;
  readonly why: string;
}

const UNDECLARED_OLD: Impossible = {
  code: -32601,
  why: 'The client’s revision does not have this request. If a server sends it, the gateway answers -32601 (method not found) for the client; the client gets what the server returns then, here the same code.',
};
const UNDECLARED_NEW: Impossible = {
  code: -32021,
  why: 'The client’s revision does not have this request, and the gateway declares the client’s capabilities to the server. The server answers a call that needs it with -32021 (missing client capability), over HTTP with status 200.',
};

const NO_CARRIER: Impossible = {
  code: -32601,
  why: '2026-07-28 has no message for an input request outside a call. If the client declared roots, the gateway answers a roots request with an empty list; it answers everything else with -32601. No other client is asked.',
};

/** Whether servers of the revision have the feature. */
export function exists(feature: Feature, server: MatrixRevision): boolean {
  if (feature === 'tasks') return server >= '2025-11-25';
  return feature !== 'outside' || !isStateless(server);
}

/** Null where the feature works. */
export function impossible(feature: Feature, client: MatrixRevision, server: MatrixRevision): Impossible | null {
  if (feature === 'outside') return isStateless(client) ? NO_CARRIER : null;
  const undeclared = isStateless(server) ? UNDECLARED_NEW : UNDECLARED_OLD;
  const elicitation = capabilitiesOf(client)['elicitation'];
  if ((feature === 'form' || feature === 'several') && elicitation === undefined) return undeclared;
  if (feature === 'url' && !('url' in (elicitation ?? {}))) return undeclared;
  return null;
}
