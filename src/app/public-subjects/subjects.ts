import { subjectToken } from '../../bus/subjects.ts';

/** Subject of the events that a server was added (S0.3). */
export const SUBJECT_CREATED = 'mcp.servers.created';
/** Subject of the events that a server was removed (S0.4). */
export const SUBJECT_DELETED = 'mcp.servers.deleted';

/** Subject for calls of a server's tools (S0.1). Bytes of the name outside `[A-Za-z0-9_-]` become `=XX`. */
export function subjectExecute(name: string): string {
  return `mcp.${serverToken(name)}.execute`;
}

/** Subject for lists of a server's tools (S0.2). */
export function subjectListTools(name: string): string {
  return `mcp.${serverToken(name)}.list-tools`;
}

/** Encodes `servers`: otherwise subscribers of `mcp.servers.*` would get requests to that server, with the caller's key. */
function serverToken(name: string): string {
  return name === 'servers' ? '=73ervers' : subjectToken(name);
}
