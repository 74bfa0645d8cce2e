import { subjectWord } from '../../bus/subjects.ts';

/** Every node and every program hears of new servers here (S0.3). */
export const SUBJECT_CREATED = 'mcp.servers.created';
/** And here of servers that are gone (S0.4). */
export const SUBJECT_DELETED = 'mcp.servers.deleted';

/** Where tools of a server are called (S0.1). Bytes of the name outside `[A-Za-z0-9_-]` stand as `=XX`. */
export function subjectExecute(name: string): string {
  return `mcp.${wordOf(name)}.execute`;
}

/** Where the tools of a server are listed (S0.2). */
export function subjectListTools(name: string): string {
  return `mcp.${wordOf(name)}.list-tools`;
}

/** Subscribers of `mcp.servers.*` would get the requests to a server with the name `servers`, with the caller's key. */
function wordOf(name: string): string {
  return name === 'servers' ? '=73ervers' : subjectWord(name);
}
