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
  several: 'several questions at once',
  outside: 'a question outside any call',
  subscribe: 'resource subscriptions',
  changed: 'changed lists',
  completion: 'completion',
  pagination: 'pagination',
  errors: 'kinds of errors',
  tasks: 'tasks',
} as const;
export type Feature = keyof typeof FEATURES;

/** Why a cell cannot work, and what is met instead. */
export interface Impossible {
  /** The JSON-RPC code that the client meets. */
  readonly code: number;
  readonly why: string;
}

const UNDECLARED_OLD: Impossible = {
  code: -32601,
  why: 'The client’s revision has no such question. A server that asks all the same is told -32601 (the client has no such method) in the client’s place; what the client gets is what the server makes of that, here the same code.',
};
const UNDECLARED_NEW: Impossible = {
  code: -32021,
  why: 'The client’s revision has no such question, and the gateway declares to the server what the client declared. A call that cannot do without is answered -32021 (missing client capability), over HTTP with status 200.',
};

const NO_CARRIER: Impossible = {
  code: -32601,
  why: 'In 2026-07-28 nothing carries a question that belongs to no call. Roots are answered as empty where the client declared any; for everything else the server is told -32601 in the client’s place. Nobody else is asked.',
};

/** Where a server of the revision has no such thing, there is nothing to try. */
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
