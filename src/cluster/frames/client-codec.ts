import type { ClientProfile } from '../../model/client-profile.ts';

/** A client as it is described to another node. */
export interface ClientText extends Omit<ClientProfile, 'principal'> {
  readonly principal: { readonly id: string; readonly name: string; readonly servers: readonly string[] | null };
}

export function clientText(client: ClientProfile): ClientText {
  const { id, name, servers } = client.principal;
  return { ...client, principal: { id, name, servers: servers === null ? null : [...servers] } };
}

export function clientOf(text: ClientText): ClientProfile {
  const { id, name, servers } = text.principal;
  return { ...text, principal: { id, name, servers: servers === null ? null : new Set(servers) } };
}
