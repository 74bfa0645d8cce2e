import { authOf, type Server } from '../model/server.ts';

/** Whose credential it is: of all callers of the server (null), or of the principal with this id. */
export interface CredentialOwner {
  readonly server: string;
  readonly principal: string | null;
}

/** Whose credentials requests of the definition carry. Without a caller there is none where each has its own. */
export function ownerAt(server: Server): CredentialOwner {
  const principal = authOf(server).per === 'principal' ? (server.caller?.owner ?? '') : null;
  return { server: server.name, principal };
}

/** Names of servers have no space. */
export function keyOf({ server, principal }: CredentialOwner): string {
  return principal === null ? server : `${server} ${principal}`;
}

export function ownerOf(key: string): CredentialOwner {
  const [server = '', ...principal] = key.split(' ');
  return { server, principal: principal.length === 0 ? null : principal.join(' ') };
}
