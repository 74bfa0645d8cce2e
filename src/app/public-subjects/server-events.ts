import { revealed } from '../../model/secret.ts';
import type { Server } from '../../model/server.ts';
import { publicAddress, publicArguments, publicText } from './without-secrets.ts';

/**
 * A server as programs on the bus hear of it (S0.3): the members that the seed's row has and we have too. Variables and
 * headers are not told; what else holds a secret, or may hold one, is masked, or stands as the reference that is in its
 * place in the configuration. `redact` masks every known secret.
 */
export function createdEvent({ name, description, transport }: Server, redact: (text: string) => string): Buffer {
  const secrets = {
    ...('env' in transport ? revealed(transport.env) : {}),
    ...('headers' in transport ? revealed(transport.headers) : {}),
  };
  const values = Object.values(secrets);
  const told: Record<string, unknown> = { name, transport: transport.type };
  if (description !== null) told['description'] = publicText(description, redact, values);
  if (transport.type === 'stdio') {
    const { command, args } = transport.written ?? transport;
    told['command'] = publicText(command, redact, values);
    told['args'] = publicArguments(args, redact, values);
  }
  if ('url' in transport) told['url'] = publicAddress(transport.writtenUrl ?? transport.url, redact, values);
  return Buffer.from(JSON.stringify(told));
}

/** S0.5. */
export function deletedEvent(name: string): Buffer {
  return Buffer.from(JSON.stringify({ name }));
}
