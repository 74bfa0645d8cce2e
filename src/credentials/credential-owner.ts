import { authOf, type Server } from '../model/server.ts';

/** The owner of a credential: all callers of the server (null), or the principal with this id. */
export interface CredentialOwner {
  readonly server: string;
  readonly principal: string | null;
}

/** The owner of the credential for requests of the definition. If each caller has its own, there is none without a caller. */
export function ownerAt(server: Server): CredentialOwner {
  const principal = authOf(server).per === 'principal' ? (server.caller?.owner ?? '') : null;
  return { server: server.name, principal };
}

/** Names of servers contain no space. */
export function keyOf({ server, principal }: CredentialOwner): string {
  return principal === null ? server : `${server} ${principal}`;
}

export function ownerOf(key: string): CredentialOwner {
  const [server = '', ...principal] = key.split(' ');
  return { server, principal: principal.length === 0 ? null : principal.join(' ') };
}
